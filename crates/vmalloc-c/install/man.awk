# Makes a page for man(1) of a page in docs/c: awk -v page=NAME -v version=V -f man.awk PAGE.md
#
# Of Markdown it knows what those pages have: headings, paragraphs, code, tables, `words`, **words** and [links](to).

function plain(text) {
    gsub(/\\/, "\\e", text)
    gsub(/…/, "...", text)
    return text
}

function styled(text) {
    text = plain(text)
    while (match(text, /\[[^]]*\]\([^)]*\)/)) {
        link = substr(text, RSTART, RLENGTH)
        # Another of these pages.
        if (sub(/\.md\)$/, "**(7)", link) && link !~ /\//)
            sub(/^.*\]\(/, "**vmalloc_", link)
        sub(/^\[/, "", link)
        sub(/\]\(.*$/, "", link)
        text = substr(text, 1, RSTART - 1) link substr(text, RSTART + RLENGTH)
    }
    while (match(text, /\*\*[^*]+\*\*/))
        text = substr(text, 1, RSTART - 1) "\\fB" substr(text, RSTART + 2, RLENGTH - 4) "\\fR" substr(text, RSTART + RLENGTH)
    while (match(text, /`[^`]+`/))
        text = substr(text, 1, RSTART - 1) "\\fB" substr(text, RSTART + 1, RLENGTH - 2) "\\fR" substr(text, RSTART + RLENGTH)
    return text
}

# A line of text that begins with a dot would be a request.
function safe(text) {
    return text ~ /^[.']/ ? "\\&" text : text
}

BEGIN { printf ".TH %s 7 \"\" \"vmalloc %s\" \"vmalloc for C\"\n", toupper(page), version }

/^```/ {
    code = !code
    print code ? ".PP\n.in +4n\n.EX" : ".EE\n.in\n.PP"
    next
}
code { print safe(plain($0)); next }

/^# / {
    title = styled(substr($0, 3))
    printf ".SH NAME\n%s \\- %s\n.SH DESCRIPTION\n", page, tolower(substr(title, 1, 1)) substr(title, 2)
    next
}
/^## / { printf ".SH %s\n", toupper(styled(substr($0, 4))); next }

# A row of a table is a tag, and the text of its other cells: all but the last have their heads.
/^\|/ {
    gsub(/^\| *| *\|$/, "")
    if (++row == 1)
        split($0, head, / *\| */)
    if (row < 3)
        next
    cells = split($0, cell, / *\| */)
    text = ""
    for (nth = 2; nth <= cells; nth++)
        if (cell[nth] != "")
            text = text (text != "" ? "; " : "") (nth < cells ? head[nth] " " : "") cell[nth]
    printf ".TP\n%s\n%s\n", safe(styled(cell[1])), safe(styled(text))
    next
}
{ row = 0 }

/^$/ { print ".PP"; next }
{ print safe(styled($0)) }
