-- Background jobs that are listed, so that the next server knows which ones this one has left; `session` is null for one of nobody.
CREATE TABLE jobs (
  id TEXT NOT NULL PRIMARY KEY,
  session TEXT,
  kind TEXT NOT NULL,
  label ANY NOT NULL,
  status TEXT NOT NULL,
  detail TEXT,
  started_at INTEGER NOT NULL,
  finished_at INTEGER
) STRICT;
-- The last number given of each kind: an id is never given twice, also when its job is forgotten.
CREATE TABLE job_numbers (
  kind TEXT NOT NULL PRIMARY KEY,
  last INTEGER NOT NULL
) STRICT;
