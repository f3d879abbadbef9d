# Makes a page for man(1) of each function of the header: awk -v folder=DIR -v version=V -f functions.awk vmalloc.h
# Without a folder it prints their names.
#
# The comment before a prototype is its text: the first sentence names the page, "Requires:" begins a section.

function plain(text) {
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    return text
}

function words(text) {
    text = plain(text)
    while (match(text, /`[^`]+`/))
        text = substr(text, 1, RSTART - 1) "\\fB" substr(text, RSTART + 1, RLENGTH - 2) "\\fR" substr(text, RSTART + RLENGTH)
    return text ~ /^[.']/ ? "\\&" text : text
}

function page(name, prototype, text,    at, file, first, conditions) {
    file = folder "/" name ".3"
    at = index(text, " Requires: ")
    conditions = at ? substr(text, at + 11) : ""
    text = at ? substr(text, 1, at - 1) : text
    first = match(text, /[.:] /) ? substr(text, 1, RSTART - 1) : substr(text, 1, length(text) - 1)
    gsub(/`/, "", first)
    printf ".TH %s 3 \"\" \"vmalloc %s\" \"vmalloc for C\"\n", toupper(name), version > file
    printf ".SH NAME\n%s \\- %s\n", name, plain(tolower(substr(first, 1, 1)) substr(first, 2)) > file
    printf ".SH SYNOPSIS\n.nf\n.B #include <vmalloc.h>\n.PP\n%s.fi\n", plain(prototype) > file
    printf ".SH DESCRIPTION\n%s\n", words(text) > file
    if (conditions != "")
        printf ".SH REQUIRES\n%s\n", words(conditions) > file
    printf ".SH SEE ALSO\n.BR vmalloc (7)\n" > file
    close(file)
}

/^\/\*/ { text = "" }
/^\/\*/, /\*\/$/ {
    gsub(/^\/?\*+ ?|^ \*\/?( |$)|\*\/$/, "")
    sub(/ +$/, "")
    text = text (text != "" && $0 != "" ? " " : "") $0
    next
}

# A prototype begins at the start of a line, and may have more.
/^[a-z].*[ *]vmalloc_[a-z_]*\(/ && !/^typedef/ {
    name = $0
    sub(/\(.*/, "", name)
    sub(/.*[ *]/, "", name)
    prototype = ""
}
name != "" { prototype = prototype $0 "\n" }
name != "" && /;$/ {
    if (folder == "")
        print name
    else
        page(name, prototype, text)
    name = ""
}
