BEGIN TRANSACTION;
CREATE TABLE _enrichment_batches (id integer primary key, job_id integer references _enrichment_jobs(id), start_cursor text, end_cursor text, row_count integer, attempts integer default 0, leased_by text, leased_until text, deaths integer default 0, alone integer default 0);
CREATE TABLE _enrichment_cache (enrichment text, key text, value text, created_at text, expires_at text, primary key (enrichment, key));
CREATE TABLE _enrichment_errors (id integer primary key, job_id integer references _enrichment_jobs(id), created_at text, row_pks text, error text, traceback text, row_key text);
INSERT INTO "_enrichment_errors" VALUES(1,3,'2026-12-01T04:43:09.034Z','[2]','AttributeError: ''NoneType'' object has no attribute ''upper''','Traceback (most recent call last):
  File "/srv/datasette_ingest/jobs/work.py", line 154, in _row_by_row
    values = await enrich(dict(zip(columns, rows[number])), config)  # noqa: B905 - the row goes on with its key
             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/tests/conftest.py", line 57, in enrich_row
    return {config.output: row[config.column].upper()}
                           ^^^^^^^^^^^^^^^^^^^^^^^^
AttributeError: ''NoneType'' object has no attribute ''upper''
','[["integer", "2"]]');
CREATE TABLE _enrichment_jobs (id integer primary key, status text, enrichment text, database_name text, table_name text, filter_querystring text, config text, started_at text, finished_at text, cancel_reason text, next_cursor text, row_count integer default 0, error_count integer default 0, done_count integer default 0, actor_id text, cost_100ths_cent integer default 0, state text default '{}', resume_at text, options text default '{}', outcomes text default '{}', cost_nanodollars integer default 0, pause_reason text, selection text, request_key text, request_digest text, live text);
INSERT INTO "_enrichment_jobs" VALUES(1,'finished','ingest','old','papers','','{"url_column": "url", "ingest_type": "pdf", "type_column": null, "output": "columns", "prefix": "ingest_", "max_age_days": 0.0, "force_recrawl": false, "sources": null, "source_column": "source", "source_id_column": "id", "doi_column": null}','2026-12-01T04:43:08.954Z','2026-12-01T04:43:08.992Z',NULL,'[["integer", "3"]]',3,0,3,'root',0,'{}',NULL,'{}','{"success": 1, "terminal-bad-status": 1, "invalid-url": 1}',0,NULL,'{"where": "", "params": {}, "is_free_sql": false, "columns": []}',NULL,NULL,NULL);
INSERT INTO "_enrichment_jobs" VALUES(2,'finished','ingest','old','papers','','{"url_column": "url", "ingest_type": "dataset", "type_column": null, "output": "none", "prefix": "ingest_", "max_age_days": null, "force_recrawl": false, "sources": null, "source_column": null, "source_id_column": null, "doi_column": null}','2026-12-01T04:43:08.998Z','2026-12-01T04:43:09.017Z',NULL,'[["integer", "3"]]',3,0,3,'root',0,'{}',NULL,'{}','{"no-platform-match": 1, "terminal-bad-status": 1, "invalid-url": 1}',0,NULL,'{"where": "", "params": {}, "is_free_sql": false, "columns": []}',NULL,NULL,NULL);
INSERT INTO "_enrichment_jobs" VALUES(3,'finished','shout','old','words','','{"column": "word", "output": "shouted"}','2026-12-01T04:43:09.022Z','2026-12-01T04:43:09.036Z',NULL,'[["integer", "2"]]',2,1,2,'root',0,'{}',NULL,'{"output": "shadow"}','{"success": 1, "error": 1}',0,NULL,'{"where": "", "params": {}, "is_free_sql": false, "columns": []}',NULL,NULL,NULL);
INSERT INTO "_enrichment_jobs" VALUES(4,'pending','shout','old','words','id=1','{"column": "word", "output": "shouted"}','2026-12-01T04:43:09.042Z',NULL,NULL,NULL,1,0,0,'root',0,'{}',NULL,'{}','{}',0,NULL,'{"where": "(\"id\" = :p0)", "params": {"p0": "[[\"text\", \"1\"]]"}, "is_free_sql": false, "columns": ["id"]}',NULL,NULL,NULL);
CREATE TABLE _enrichment_progress (id integer primary key, job_id integer references _enrichment_jobs(id), timestamp_ms_2025 integer, success_count integer, error_count integer, message text);
INSERT INTO "_enrichment_progress" VALUES(1,1,60410588954,0,0,'Started by root');
INSERT INTO "_enrichment_progress" VALUES(2,1,60410588961,0,0,'A process took it up');
INSERT INTO "_enrichment_progress" VALUES(3,1,60410588984,3,0,NULL);
INSERT INTO "_enrichment_progress" VALUES(4,1,60410588991,0,0,'Finished: every row was answered');
INSERT INTO "_enrichment_progress" VALUES(5,2,60410588998,0,0,'Started by root');
INSERT INTO "_enrichment_progress" VALUES(6,2,60410589001,0,0,'A process took it up');
INSERT INTO "_enrichment_progress" VALUES(7,2,60410589014,3,0,NULL);
INSERT INTO "_enrichment_progress" VALUES(8,2,60410589017,0,0,'Finished: every row was answered');
INSERT INTO "_enrichment_progress" VALUES(9,3,60410589022,0,0,'Started by root');
INSERT INTO "_enrichment_progress" VALUES(10,3,60410589027,0,0,'A process took it up');
INSERT INTO "_enrichment_progress" VALUES(11,3,60410589034,1,1,NULL);
INSERT INTO "_enrichment_progress" VALUES(12,3,60410589036,0,0,'Finished: every row was answered');
INSERT INTO "_enrichment_progress" VALUES(13,4,60410589041,0,0,'Started by root');
CREATE TABLE "_enrichments_words" ("id" integer primary key, "shouted" text);
INSERT INTO "_enrichments_words" VALUES(1,'ONE');
CREATE TABLE "_sqlite_migrations" (
   "id" INTEGER PRIMARY KEY,
   "migration_set" TEXT,
   "name" TEXT,
   "applied_at" TEXT
);
INSERT INTO "_sqlite_migrations" VALUES(1,'datasette-ingest-jobs','m001_tables','2026-12-01 04:43:08.957634+00:00');
INSERT INTO "_sqlite_migrations" VALUES(2,'datasette_ingest.ingest_file_result','create','2026-12-01 04:43:08.971358+00:00');
INSERT INTO "_sqlite_migrations" VALUES(3,'datasette_ingest.ingest_file_result','17 columns','2026-12-01 04:43:08.971577+00:00');
INSERT INTO "_sqlite_migrations" VALUES(4,'datasette_ingest.ingest_candidate','create','2026-12-01 04:43:08.972012+00:00');
INSERT INTO "_sqlite_migrations" VALUES(5,'datasette_ingest.ingest_candidate','8 columns','2026-12-01 04:43:08.972134+00:00');
INSERT INTO "_sqlite_migrations" VALUES(6,'datasette_ingest.file_meta','create','2026-12-01 04:43:08.972506+00:00');
INSERT INTO "_sqlite_migrations" VALUES(7,'datasette_ingest.file_meta','5 columns','2026-12-01 04:43:08.972616+00:00');
INSERT INTO "_sqlite_migrations" VALUES(8,'datasette_ingest.html_meta','create','2026-12-01 04:43:08.973079+00:00');
INSERT INTO "_sqlite_migrations" VALUES(9,'datasette_ingest.html_meta','7 columns','2026-12-01 04:43:08.973180+00:00');
INSERT INTO "_sqlite_migrations" VALUES(10,'datasette_ingest.ingest_request','create','2026-12-01 04:43:08.973576+00:00');
INSERT INTO "_sqlite_migrations" VALUES(11,'datasette_ingest.ingest_request','8 columns','2026-12-01 04:43:08.973692+00:00');
INSERT INTO "_sqlite_migrations" VALUES(12,'datasette_ingest.ingest_pending','create','2026-12-01 04:43:08.974150+00:00');
INSERT INTO "_sqlite_migrations" VALUES(13,'datasette_ingest.ingest_hits','create','2026-12-01 04:43:08.975148+00:00');
INSERT INTO "_sqlite_migrations" VALUES(14,'datasette_ingest.ingest_fileset','create','2026-12-01 04:43:09.007266+00:00');
INSERT INTO "_sqlite_migrations" VALUES(15,'datasette_ingest.ingest_fileset','7 columns','2026-12-01 04:43:09.007534+00:00');
CREATE TABLE [file_meta] (
  [sha1hex] text primary key,
  [sha256hex] text,
  [md5hex] text,
  [size_bytes] integer,
  [mimetype] text
);
INSERT INTO "file_meta" VALUES('cb06824ac6a6693ef317b846fbb1c5166fc4518c','71fa19e90d88fadc833207c327775fcde4069130c4ef5ffb4ae309db2706bcad','1fe3fa5668baef74237a869c216d07ba',89,'application/pdf');
CREATE TABLE [html_meta] (
  [sha1hex] text primary key,
  [updated] text,
  [status] text,
  [scope] text,
  [word_count] integer,
  [biblio] text,
  [resources] text
);
CREATE TABLE [ingest_candidate] (
  [ingest_type] text,
  [base_url] text,
  [rank] integer,
  [url] text,
  [rule] text,
  [outcome] text,
  [status_code] integer,
  [reason] text,
  primary key ([ingest_type], [base_url], [rank])
);
CREATE TABLE [ingest_file_result] (
  [ingest_type] text not null,
  [base_url] text not null,
  [updated] text not null,
  [hit] integer not null check (hit in (0, 1)),
  [status] text not null,
  [terminal_url] text,
  [terminal_dt] text,
  [terminal_status_code] integer,
  [terminal_sha1hex] text,
  [error_message] text,
  [warnings] text,
  [hops] text,
  [via] text,
  [attempts] integer not null default 1,
  [next_try] text,
  [job_id] integer,
  [landing_sha1hex] text,
  primary key ([ingest_type], [base_url])
);
INSERT INTO "ingest_file_result" VALUES('pdf','http://old.example/p.pdf','2026-12-01T04:43:08Z',1,'success','http://old.example/p.pdf','20261201044308',200,'cb06824ac6a6693ef317b846fbb1c5166fc4518c',NULL,NULL,'["http://old.example/p.pdf"]','live',1,NULL,1,NULL);
INSERT INTO "ingest_file_result" VALUES('pdf','http://old.example/gone','2026-12-01T04:43:08Z',0,'terminal-bad-status','http://old.example/gone','20261201044308',404,NULL,'http://old.example/gone answers 404',NULL,'["http://old.example/gone"]','live',1,'2026-12-31T04:43:08Z',1,NULL);
INSERT INTO "ingest_file_result" VALUES('dataset','http://old.example/p.pdf','2026-12-01T04:43:09Z',0,'no-platform-match','http://old.example/p.pdf','20261201044309',200,NULL,'no list of files is known for http://old.example/p.pdf',NULL,'["http://old.example/p.pdf"]','live',1,'2026-12-31T04:43:09Z',2,NULL);
INSERT INTO "ingest_file_result" VALUES('dataset','http://old.example/gone','2026-12-01T04:43:09Z',0,'terminal-bad-status','http://old.example/gone','20261201044309',404,NULL,'http://old.example/gone answers 404',NULL,'["http://old.example/gone"]','live',1,'2026-12-31T04:43:09Z',2,NULL);
CREATE TABLE [ingest_fileset] (
  [ingest_type] text,
  [base_url] text,
  [platform] text,
  [platform_id] text,
  [file_count] integer,
  [total_size] integer,
  [manifest] text,
  primary key ([ingest_type], [base_url])
);
CREATE TABLE [ingest_request] (
  [ingest_type] text not null,
  [base_url] text not null,
  [source] text not null,
  [source_id] text not null,
  [actor] text not null default 'unknown',
  [created] text not null,
  [release_stage] text,
  [request] text,
  primary key ([ingest_type], [base_url], [source], [source_id])
);
INSERT INTO "ingest_request" VALUES('pdf','http://old.example/p.pdf','crossref','1','root','2026-12-01T04:43:08Z',NULL,NULL);
INSERT INTO "ingest_request" VALUES('pdf','http://old.example/gone','crossref','2','root','2026-12-01T04:43:08Z',NULL,NULL);
CREATE TABLE papers (id integer primary key, url text, source text, "ingest_hit" integer, "ingest_status" text, "ingest_terminal_url" text, "ingest_terminal_dt" text, "ingest_terminal_status_code" integer, "ingest_terminal_sha1hex" text);
INSERT INTO "papers" VALUES(1,'http://old.example/p.pdf','crossref',1,'success','http://old.example/p.pdf','20261201044308',200,'cb06824ac6a6693ef317b846fbb1c5166fc4518c');
INSERT INTO "papers" VALUES(2,'http://old.example/gone','crossref',0,'terminal-bad-status','http://old.example/gone','20261201044308',404,NULL);
INSERT INTO "papers" VALUES(3,NULL,'crossref',0,'invalid-url',NULL,NULL,NULL,NULL);
CREATE TABLE words (id integer primary key, word text);
INSERT INTO "words" VALUES(1,'one');
INSERT INTO "words" VALUES(2,NULL);
CREATE UNIQUE INDEX "idx__sqlite_migrations_migration_set_name"
    ON "_sqlite_migrations" ("migration_set", "name");
CREATE INDEX _enrichment_batches_job on _enrichment_batches (job_id);
CREATE INDEX _enrichment_progress_job on _enrichment_progress (job_id);
CREATE INDEX _enrichment_errors_job on _enrichment_errors (job_id);
CREATE INDEX _enrichment_jobs_status on _enrichment_jobs (status);
CREATE INDEX [idx_ingest_file_result_terminal_url] on [ingest_file_result] ([terminal_url]);
CREATE INDEX [idx_ingest_file_result_terminal_sha1hex] on [ingest_file_result] ([terminal_sha1hex]);
CREATE VIEW ingest_pending as
select q.* from ingest_request q
left join ingest_file_result r on r.ingest_type = q.ingest_type and r.base_url = q.base_url
where r.base_url is null or r.next_try <= strftime('%Y-%m-%dT%H:%M:%SZ', 'now');
CREATE VIEW ingest_hits as
select q.ingest_type, q.base_url, q.source, q.source_id, q.actor, q.created, q.release_stage, q.request,
  r.updated, r.terminal_url, r.terminal_dt, r.terminal_status_code, r.terminal_sha1hex, r.warnings, r.via,
  f.sha256hex, f.md5hex, f.size_bytes, f.mimetype
from ingest_file_result r
join ingest_request q on q.ingest_type = r.ingest_type and q.base_url = r.base_url
left join file_meta f on f.sha1hex = r.terminal_sha1hex
where r.hit = 1;
COMMIT;
