-- server --
-- What decides whether an acknowledged commit survives, and whose clock leases are kept by.
select current_setting('server_version_num')::int as version_number,
       current_setting('server_version') as version,
       current_setting('fsync') as fsync,
       current_setting('synchronous_commit') as synchronous_commit,
       current_setting('full_page_writes') as full_page_writes,
       current_setting('data_sync_retry') as data_sync_retry,
       current_setting('max_connections')::int as connections_max,
       pg_is_in_recovery() as is_replica,
       clock_timestamp() as now_at;
