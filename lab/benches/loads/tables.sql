-- 200,000 rows, an index, a join and groups, in memory.
CREATE TABLE word(id INTEGER PRIMARY KEY, text TEXT, part INTEGER);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000)
INSERT INTO word SELECT i, printf('%08x-%d', (i * 2654435761) & 4294967295, i), i % 997 FROM n;
CREATE INDEX by_text ON word(text);
CREATE TABLE large(id INTEGER PRIMARY KEY, data BLOB);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)
INSERT INTO large SELECT i, zeroblob(100000 + i * 100) FROM n;
SELECT count(*), sum(length(text)) FROM word WHERE text > '8';
SELECT part, count(*), max(text) FROM word GROUP BY part ORDER BY 3 LIMIT 5;
SELECT sum(length(data || data)) FROM large;
SELECT count(*) FROM word a JOIN word b ON a.id = b.part;
SELECT length(group_concat(text, ',')) FROM word;
