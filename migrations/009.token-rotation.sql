-- The secret before the last rotation, which stays good for an overlap (api.md §9).
ALTER TABLE access_tokens ADD COLUMN previous_hash TEXT;
ALTER TABLE access_tokens ADD COLUMN previous_until INTEGER;
