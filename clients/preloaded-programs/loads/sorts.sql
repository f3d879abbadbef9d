-- Large sorts, large strings and a hash join, in one session. Every answer is a number or a sum, so that it can be compared.
SET max_parallel_workers_per_gather = 0;
SET work_mem = '256MB';
CREATE TEMP TABLE words AS SELECT g AS number, md5(g::text) AS word FROM generate_series(1, 150000) g;
ANALYZE words;
SELECT md5(string_agg(word, ',' ORDER BY word)) FROM words;
SELECT md5(string_agg(word, ',' ORDER BY word DESC)) FROM words;
SELECT sum(length(big)), md5(max(big)) FROM (SELECT repeat(md5(g::text), 20000) AS big FROM generate_series(1, 300) g) texts;
SELECT count(*), sum(a.number) FROM words a JOIN words b ON a.word = md5(b.number::text);
SELECT count(*), max(many) FROM (SELECT left(word, 4) AS start, count(*) AS many FROM words GROUP BY 1) groups;
SELECT md5(string_agg(word, ',' ORDER BY word)) FROM words;
SELECT md5(array_to_string(array_agg(word ORDER BY number), '')) FROM words;
SELECT sum(length(big)) FROM (SELECT repeat(word, 30000) AS big FROM words LIMIT 300) texts;
SELECT md5(string_agg(word, ',' ORDER BY reverse(word))) FROM words;
