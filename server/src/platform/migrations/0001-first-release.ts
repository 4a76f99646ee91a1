import { sql } from 'kysely'
import type { Migration } from 'kysely/migration'

/* Ids sort by time under the collation "C", so they are also the order of lists. */

const servers = sql`
  create table settings (
    key text primary key,
    value bytea not null
  );

  -- The live servers of this database.
  create table servers (
    id text collate "C" primary key,
    version text not null,
    schema text not null,
    host text not null,
    pid integer not null,
    address text not null,
    data_directory text not null,
    started_at timestamptz not null default now(),
    seen_at timestamptz not null default now()
  );

  -- Always one row. The epoch counts take-overs and never decreases.
  create table leadership (
    one boolean primary key default true check (one),
    epoch bigint not null check (epoch >= 0),
    holder text,
    renewed_at timestamptz not null default now(),
    data_directory text
  );
  insert into leadership (epoch) values (0);
`

const accounts = sql`
  create table accounts (
    id text collate "C" primary key,
    name text not null,
    plan text not null,
    operator boolean not null default false,
    requests_per_hour integer check (requests_per_hour > 0),
    created_at timestamptz not null default now()
  );
  -- Two servers that start at once still create one operator account.
  create unique index accounts_one_operator on accounts (operator) where operator;

  create table users (
    id text collate "C" primary key,
    account_id text collate "C" not null references accounts,
    email text not null unique,
    password_hash text not null,
    created_at timestamptz not null default now()
  );

  create table sessions (
    id text collate "C" primary key,
    user_id text collate "C" not null references users on delete cascade,
    hash bytea not null unique,
    secret_hash bytea not null,
    address text not null,
    user_agent text,
    created_at timestamptz not null default now(),
    last_seen_at timestamptz not null default now(),
    expires_at timestamptz not null
  );
  create index sessions_user on sessions (user_id, id);

  -- The browsers in which a user has signed in.
  create table devices (
    hash bytea not null,
    user_id text collate "C" not null references users on delete cascade,
    last_used_at timestamptz not null default now(),
    primary key (hash, user_id)
  );
  create index devices_user on devices (user_id, last_used_at);

  create table setup_links (
    hash bytea primary key,
    account_id text collate "C" not null references accounts,
    expires_at timestamptz not null
  );
  create index setup_links_account on setup_links (account_id);

  -- Command-line logins that wait for a person in the dashboard. A decision without a user is a refusal.
  create table device_logins (
    device_hash bytea primary key,
    user_hash bytea not null unique,
    name text not null,
    address text not null,
    created_at timestamptz not null default now(),
    expires_at timestamptz not null,
    interval_seconds integer not null,
    polled_at timestamptz,
    decided_at timestamptz,
    user_id text collate "C" references users on delete cascade
  );
  create index device_logins_expiry on device_logins (expires_at);

  create table api_keys (
    id text collate "C" primary key,
    account_id text collate "C" not null references accounts,
    name text not null,
    hash bytea not null unique,
    hint text not null,
    scopes text[] not null,
    project_ids text[],
    workflow jsonb,
    created_at timestamptz not null default now(),
    last_used_at timestamptz,
    expires_at timestamptz,
    revoked_at timestamptz
  );
  create index api_keys_account on api_keys (account_id, id);
  create index api_keys_trust on api_keys ((workflow->>'trust_id')) where workflow is not null;

  create table audit_entries (
    id text collate "C" primary key,
    account_id text collate "C" not null references accounts,
    at timestamptz not null default now(),
    actor_type text not null check (actor_type in ('key', 'user', 'command', 'workflow')),
    actor_id text,
    actor_name text,
    address text,
    request_id text,
    operation text not null,
    project_id text,
    resource_id text,
    details jsonb
  );
  create index audit_entries_account on audit_entries (account_id, id);
  -- Finds entries past their retention. Rows lie in the order of their time, so BRIN suffices.
  create index audit_entries_at on audit_entries using brin (at);
`

const requests = sql`
  -- Nearly every request updates these rows. Room on the page keeps the updates off the index.
  create table rate_windows (
    account_id text collate "C" primary key references accounts,
    started_at timestamptz not null,
    used bigint not null
  ) with (fillfactor = 20);
  create table session_rate_windows (
    account_id text collate "C" primary key references accounts,
    started_at timestamptz not null,
    used bigint not null
  ) with (fillfactor = 20);

  -- Attempts by limit and key. "granted" is the number of attempts that the last statement allowed.
  create table attempts (
    name text not null,
    key text collate "C" not null,
    used integer not null check (used >= 0),
    granted integer not null,
    ends_at timestamptz not null,
    primary key (name, key)
  );
  create index attempts_end on attempts (ends_at);

  -- The first insert does the work; an insert of the same key waits until that transaction ends.
  create table idempotency_keys (
    account_id text collate "C" not null references accounts on delete cascade,
    operation text not null,
    key text not null,
    answer bytea,
    created_at timestamptz not null default now(),
    primary key (account_id, operation, key)
  );
  create index idempotency_keys_age on idempotency_keys (created_at);
`

const projects = sql`
  create table projects (
    id text collate "C" primary key,
    account_id text collate "C" not null references accounts,
    name text not null,
    region text not null,
    plan text not null,
    status text not null check (status in ('active', 'deleting')),
    created_at timestamptz not null default now()
  );
  create index projects_account on projects (account_id, id);

  -- The number of projects of an account, so that lists need not count. It is spread over slots by connection, so
  -- that concurrent creations in one account do not wait for each other.
  create table project_counts (
    account_id text collate "C" not null references accounts,
    slot integer not null,
    total bigint not null,
    primary key (account_id, slot)
  ) with (fillfactor = 50);

  create function count_projects() returns trigger language plpgsql as $$
  begin
    if tg_op = 'INSERT' then
      insert into project_counts as known (account_id, slot, total)
        select account_id, pg_backend_pid() % 32, count(*) from added group by account_id
        on conflict (account_id, slot) do update set total = known.total + excluded.total;
    else
      insert into project_counts as known (account_id, slot, total)
        select account_id, pg_backend_pid() % 32, -count(*) from removed group by account_id
        on conflict (account_id, slot) do update set total = known.total + excluded.total;
    end if;
    return null;
  end $$;
  -- By statement: a thousand rows at once change the number once.
  create trigger count_inserted after insert on projects
    referencing new table as added for each statement execute function count_projects();
  create trigger count_deleted after delete on projects
    referencing old table as removed for each statement execute function count_projects();
`

const trust = sql`
  create table trust_rules (
    id text collate "C" primary key,
    project_id text collate "C" not null references projects on delete cascade,
    account_id text collate "C" not null references accounts,
    issuer text not null,
    repository text,
    repository_id text,
    branch text,
    tag text,
    environment text,
    event text,
    workflow text,
    claims jsonb not null,
    created_at timestamptz not null default now(),
    last_used_at timestamptz
  );
  create index trust_rules_project on trust_rules (project_id, id);

  -- A token counts once. Its hash is kept until the token expires.
  create table used_tokens (
    hash bytea primary key,
    expires_at timestamptz not null
  );
`

const sources = sql`
  create table sources (
    id text collate "C" primary key,
    project_id text collate "C" not null references projects on delete cascade,
    account_id text collate "C" not null references accounts,
    bytes bigint not null check (bytes >= 0),
    commit text,
    branch text,
    received_at timestamptz,
    used_at timestamptz not null default now(),
    created_at timestamptz not null default now()
  );
  create index sources_account on sources (account_id);
  create index sources_project on sources (project_id);

  create table registries (
    id text collate "C" primary key,
    project_id text collate "C" not null references projects on delete cascade,
    registry text not null,
    username text not null,
    password bytea not null,
    created_at timestamptz not null default now(),
    unique (project_id, registry)
  );
`

const apps = sql`
  create table apps (
    id text collate "C" primary key,
    project_id text collate "C" not null references projects,
    name text not null,
    number integer generated always as identity unique,
    port integer unique,
    hostname text unique,
    generation integer not null default 0,
    created_at timestamptz not null default now(),
    unique (project_id, name),
    check ((port is null) <> (hostname is null))
  );

  create table app_variables (
    app_id text collate "C" not null references apps on delete cascade,
    name text collate "C" not null,
    kind text not null check (kind in ('plain', 'secret')),
    value bytea not null,
    source text,
    updated_at timestamptz not null default now(),
    primary key (app_id, name)
  );

  create table app_processes (
    app_id text collate "C" not null references apps on delete cascade,
    type text collate "C" not null,
    instances integer not null check (instances >= 0),
    primary key (app_id, type)
  );

  -- For apps that are deployed as images; other apps name their volumes in fairlead.json.
  create table app_volumes (
    app_id text collate "C" not null references apps on delete cascade,
    name text collate "C" not null,
    path text not null,
    primary key (app_id, name)
  );

  create table git_credentials (
    app_id text collate "C" primary key references apps on delete cascade,
    kind text not null check (kind in ('token', 'deploy_key')),
    git_url text not null,
    secret bytea not null,
    public_key text,
    created_at timestamptz not null default now()
  );

  -- The known keys of ssh hosts.
  create table git_hosts (
    app_id text collate "C" not null references apps on delete cascade,
    host text not null,
    key text not null,
    met_at timestamptz not null default now(),
    primary key (app_id, host)
  );
`

const deployments = sql`
  create table deployments (
    id text collate "C" primary key,
    project_id text collate "C" not null references projects,
    app_id text collate "C" not null references apps,
    account_id text collate "C" not null references accounts,
    status text not null
      check (status in ('building', 'running', 'failed', 'canceled', 'superseded', 'stopped')),
    generation integer not null,
    retained boolean not null default false,
    git_url text not null,
    git_token bytea,
    -- No reference: a source may be removed before its deployments.
    source_id text collate "C",
    image text,
    image_digest text,
    from_deployment_id text collate "C",
    branch text,
    commit text,
    commit_details jsonb,
    triggered_by jsonb not null,
    root text,
    variables bytea not null,
    variable_origins jsonb not null,
    former_values bytea,
    superseded_by text,
    build_plan jsonb,
    builds_before integer,
    runtime text not null,
    instance jsonb,
    failure jsonb,
    attempts integer not null default 0,
    steps jsonb,
    last_request jsonb,
    created_at timestamptz not null default now(),
    started_at timestamptz,
    finished_at timestamptz
  );
  create index deployments_project on deployments (project_id, id);
  create index deployments_app on deployments (app_id, id);
  create unique index deployments_generation on deployments (app_id, generation);
  -- An app has at most one running release.
  create unique index deployments_one_running on deployments (app_id) where status = 'running';
  create index deployments_building on deployments (account_id) where status = 'building';
  create index deployments_source on deployments (source_id) where source_id is not null;
  create index deployments_superseded_by on deployments (superseded_by) where superseded_by is not null;

  -- All instances of a release except the first of "web", which is in "deployments.instance".
  create table instances (
    deployment_id text collate "C" not null references deployments on delete cascade,
    type text collate "C" not null,
    number integer not null,
    handle jsonb not null,
    state text not null,
    restarts integer not null default 0,
    started_at timestamptz not null default now(),
    primary key (deployment_id, type, number)
  );
`

const metrics = sql`
  create table app_traffic (
    app_id text collate "C" not null references apps on delete cascade,
    hour timestamptz not null,
    requests bigint not null check (requests >= 0),
    errors bigint not null check (errors >= 0),
    primary key (app_id, hour)
  );

  -- A ring of buckets: each app has the same number of rows, which are overwritten in turn.
  create table app_metrics (
    app_id text collate "C" not null references apps on delete cascade,
    seconds integer not null,
    slot integer not null,
    began timestamptz not null,
    requests bigint not null,
    answers bigint[] not null,
    times bigint[] not null,
    memory_bytes bigint,
    memory_limit_bytes bigint,
    cpu_seconds double precision not null,
    measured_seconds double precision not null,
    cpu_limit double precision,
    instances integer,
    restarts integer not null,
    primary key (app_id, seconds, slot)
  ) with (fillfactor = 70);

  -- The latest measurement of each instance.
  create table app_usage (
    app_id text collate "C" primary key references apps on delete cascade,
    at timestamptz not null,
    instances jsonb not null
  ) with (fillfactor = 70);
`

const tasks = sql`
  create table schedules (
    id text collate "C" primary key,
    app_id text collate "C" not null references apps on delete cascade,
    project_id text collate "C" not null,
    account_id text collate "C" not null references accounts,
    name text not null,
    schedule text not null,
    timezone text not null,
    command jsonb not null,
    overlap text not null check (overlap in ('forbid', 'allow', 'replace')),
    from_file boolean not null default false,
    next_at timestamptz not null,
    created_at timestamptz not null default now(),
    unique (app_id, name)
  );
  create index schedules_due on schedules (next_at);
  create index schedules_account on schedules (account_id);

  create table runs (
    id text collate "C" primary key,
    app_id text collate "C" not null references apps on delete cascade,
    project_id text collate "C" not null,
    account_id text collate "C" not null references accounts,
    deployment_id text collate "C",
    schedule_id text collate "C",
    due_at timestamptz,
    command jsonb not null,
    terminal jsonb,
    status text not null
      check (status in ('waiting', 'running', 'succeeded', 'failed', 'canceled', 'skipped')),
    exit_code integer,
    signal text,
    problem text,
    begun_by text collate "C",
    cancel_asked_at timestamptz,
    output text,
    ticket_hash bytea unique,
    ticket_expires_at timestamptz,
    created_at timestamptz not null default now(),
    started_at timestamptz,
    finished_at timestamptz,
    -- Each time of a schedule begins one run.
    unique (schedule_id, due_at)
  );
  create index runs_app on runs (app_id, id);
  create index runs_unfinished on runs (account_id) where status in ('waiting', 'running');
`

const databases = sql`
  -- The port is part of every connection string that was handed out, so a version keeps it.
  create table database_clusters (
    version text primary key,
    port integer not null unique,
    created_at timestamptz not null default now()
  );

  create table databases (
    id text collate "C" primary key,
    project_id text collate "C" not null references projects,
    name text not null,
    plan text not null,
    engine text not null check (engine in ('embedded', 'external')),
    version text not null,
    host text not null,
    port integer not null,
    -- Not the id: PostgreSQL shows names of roles and databases to all of its users.
    role_name text not null,
    second_role text,
    login text not null default 'owner' check (login in ('owner', 'second')),
    password bytea not null,
    next_password bytea,
    former_password bytea,
    former_ends_at timestamptz,
    status text not null check (status in ('provisioning', 'available', 'failed', 'deleting')),
    source_snapshot_id text collate "C",
    restore_id uuid,
    restriction text not null default 'none' check (restriction in ('none', 'read_only', 'no_login')),
    failure jsonb,
    provisioning_since timestamptz not null default now(),
    available_at timestamptz,
    drop_at timestamptz,
    created_at timestamptz not null default now(),
    check ((status = 'deleting') = (drop_at is not null)),
    check ((former_password is null) = (former_ends_at is null))
  );
  create index databases_project on databases (project_id, id);

  create table snapshots (
    id text collate "C" primary key,
    database_id text collate "C" not null references databases,
    copy_name text not null,
    status text not null check (status in ('creating', 'available', 'failed', 'deleting')),
    size_bytes bigint,
    failure jsonb,
    creating_since timestamptz not null default now(),
    created_at timestamptz not null default now()
  );
  create index snapshots_database on snapshots (database_id, id);

  create table database_links (
    id text collate "C" primary key,
    project_id text collate "C" not null,
    app_id text collate "C" not null references apps on delete cascade,
    database_id text collate "C" not null references databases on delete cascade,
    variable text collate "C" not null,
    source text,
    created_at timestamptz not null default now(),
    unique (app_id, variable)
  );
  create index database_links_project on database_links (project_id);
  create index database_links_database on database_links (database_id);
`

const domains = sql`
  create table domains (
    id text collate "C" primary key,
    app_id text collate "C" not null references apps on delete cascade,
    project_id text collate "C" not null,
    account_id text collate "C" not null references accounts on delete cascade,
    name text collate "C" not null,
    registered text collate "C" not null,
    status text not null default 'pending' check (status in ('pending', 'active', 'failing')),
    is_primary boolean not null default false,
    redirect boolean not null default false,
    token text not null,
    problems jsonb not null default '[]',
    asked_at timestamptz not null default now(),
    checks integer not null default 0,
    wrong_checks integer not null default 0,
    wrong_since timestamptz,
    checked_at timestamptz,
    next_check_at timestamptz default now(),
    served_since timestamptz,
    created_at timestamptz not null default now(),
    unique (account_id, name),
    check (not is_primary or (status <> 'pending' and name not like '*%')),
    check (not redirect or name not like '*%'),
    check ((status = 'pending') = (served_since is null))
  );
  -- Several accounts may wait for a name; one account has it.
  create unique index domains_served on domains (name) where status <> 'pending';
  create unique index domains_primary on domains (app_id) where is_primary;
  create index domains_registered on domains (registered) where status <> 'pending';
  create index domains_wanted on domains (registered) where status = 'pending';
  create index domains_app on domains (app_id);
  create index domains_due on domains (next_check_at);

  -- The account at which a name was served last. Another account must prove that it owns the name.
  create table domain_holders (
    name text collate "C" primary key,
    account_id text collate "C" not null references accounts on delete cascade,
    held_at timestamptz not null default now()
  );
  create index domain_holders_account on domain_holders (account_id, held_at);
  -- All names of a registered domain have the same prefix when they are read backwards.
  create index domain_holders_backwards on domain_holders (reverse(name));

  -- A trigger, because domains also go with their apps, and every change must reach the gateway.
  create function notify_domains() returns trigger language plpgsql as $$
    begin
      perform pg_notify('fairlead_domains', coalesce(new.app_id, old.app_id));
      return null;
    end
  $$;
  create trigger domains_added_or_removed after insert or delete on domains
    for each row execute function notify_domains();
  create trigger domains_changed after update on domains for each row
    when ((old.status, old.is_primary, old.redirect, old.token) is distinct from
      (new.status, new.is_primary, new.redirect, new.token))
    execute function notify_domains();
`

const certificates = sql`
  create table certificates (
    id text collate "C" primary key,
    account_id text collate "C" not null references accounts on delete cascade,
    project_id text collate "C" references projects on delete cascade,
    app_id text collate "C" references apps on delete cascade,
    domain_id text collate "C" references domains on delete cascade,
    names text[] collate "C" not null check (cardinality(names) > 0),
    source text not null check (source in ('automatic', 'uploaded')),
    chain text,
    private_key bytea,
    issuer text,
    serial text,
    not_before timestamptz,
    expires_at timestamptz,
    attempted_at timestamptz,
    next_attempt_at timestamptz,
    attempts integer not null default 0,
    failure jsonb,
    is_under_way boolean not null default false,
    order_url text,
    order_key bytea,
    alerted_at timestamptz,
    revocation_requested_at timestamptz,
    revoked_at timestamptz,
    created_at timestamptz not null default now(),
    check ((chain is null) = (issuer is null)),
    check ((chain is null) = (serial is null)),
    check ((chain is null) = (not_before is null)),
    check ((chain is null) = (expires_at is null)),
    -- The key of a revoked certificate has no use.
    check ((private_key is not null) = (chain is not null and revoked_at is null)),
    check ((order_url is null) = (order_key is null)),
    check (source = 'automatic' or (chain is not null and app_id is null and domain_id is null and revoked_at is null)),
    check (revoked_at is null or revocation_requested_at is not null)
  );
  -- One order at a time for the names of an owner. A certificate whose revocation was requested has a successor.
  create unique index certificates_automatic
    on certificates (names, coalesce(domain_id, ''), coalesce(app_id, ''))
    where source = 'automatic' and revocation_requested_at is null;
  create index certificates_account on certificates (account_id, id);
  create index certificates_project on certificates (project_id);
  create index certificates_app on certificates (app_id);
  create index certificates_domain on certificates (domain_id);
  create index certificates_due on certificates (next_attempt_at);

  -- A trigger, because certificates also go with their apps and domains.
  create function notify_certificates() returns trigger language plpgsql as $$
    begin
      perform pg_notify('fairlead_certificates', '');
      return null;
    end
  $$;
  create trigger certificates_changed
    after insert or delete or update of chain, next_attempt_at, revocation_requested_at, revoked_at on certificates
    for each statement execute function notify_certificates();

  -- The account of this server at each authority, by the address of the authority's directory.
  create table acme_accounts (
    directory text primary key,
    url text,
    private_key bytea not null,
    email text not null,
    created_at timestamptz not null default now()
  );

  -- The recent orders, so that no tenant uses up the limit that an authority has for the whole server.
  create table acme_orders (
    id bigint generated always as identity primary key,
    account_id text collate "C" not null,
    registered_domain text collate "C" not null,
    is_renewal boolean not null,
    created_at timestamptz not null default now()
  );
  create index acme_orders_time on acme_orders (created_at);

  -- No order is sent before this time: for names below a registered domain, or for all names ('*').
  create table acme_pauses (
    scope text collate "C" primary key,
    until timestamptz not null,
    failure jsonb not null
  );

  -- TXT records that are in DNS, or may be. The present leader removes them.
  create table acme_records (
    name text collate "C" not null,
    value text collate "C" not null,
    created_at timestamptz not null default now(),
    primary key (name, value)
  );
`

const storage = sql`
  create table files (
    id text collate "C" primary key,
    project_id text collate "C" not null references projects,
    name text not null,
    size bigint not null check (size >= 0),
    declared_type text,
    detected_type text,
    sha256 bytea not null,
    token bytea not null,
    uploaded_at timestamptz not null default now()
  );
  create index files_project on files (project_id, id);

  -- One row for each project: uploads that end together wait for each other here, so that each counts the others.
  create table storage_usage (
    project_id text collate "C" primary key references projects,
    bytes bigint not null check (bytes >= 0)
  );

  -- Files in the store without a row in "files": current uploads, and deleted files that are not yet removed.
  create table pending_files (
    file_id text collate "C" primary key,
    server_id text not null,
    process text,
    -- No reference: a row may outlive its project.
    project_id text collate "C",
    bytes bigint not null default 0 check (bytes >= 0),
    lease_until timestamptz not null,
    created_at timestamptz not null default now()
  );
  create index pending_files_project on pending_files (project_id);
`

const webhooks = sql`
  create table webhooks (
    id text collate "C" primary key,
    account_id text collate "C" not null references accounts,
    project_id text collate "C" references projects on delete cascade,
    url text not null,
    events text[] not null,
    rate integer,
    secret bytea not null,
    previous_secret bytea,
    previous_secret_until timestamptz,
    status text not null check (status in ('enabled', 'disabled')),
    disabled_reason text check (disabled_reason in ('user', 'gone', 'failures')),
    -- Since this time every attempt has failed.
    failing_since timestamptz,
    failed_attempts integer not null default 0,
    created_at timestamptz not null default now(),
    check ((status = 'disabled') = (disabled_reason is not null))
  );
  create index webhooks_account on webhooks (account_id, id);

  create table events (
    id text collate "C" primary key,
    account_id text collate "C" not null references accounts,
    project_id text collate "C" references projects on delete cascade,
    type text not null,
    body text not null,
    created_at timestamptz not null default now()
  );
  create index events_created on events (created_at);

  -- A row owns the retries of one event at one endpoint.
  create table deliveries (
    id text collate "C" primary key,
    webhook_id text collate "C" not null references webhooks on delete cascade,
    event_id text collate "C" not null references events on delete cascade,
    status text not null check (status in ('pending', 'succeeded', 'failed')),
    -- A redelivery begins a round; an attempt that is still in progress belongs to the round before.
    round integer not null default 1,
    attempts integer not null default 0,
    -- In this round: the position in the table of retries.
    failures integer not null default 0,
    next_attempt_at timestamptz,
    last_status integer,
    last_error text,
    finished_at timestamptz,
    created_at timestamptz not null default now(),
    check ((status = 'pending') = (next_attempt_at is not null))
  );
  create index deliveries_webhook on deliveries (webhook_id, id);
  create index deliveries_event on deliveries (event_id);
  -- Due deliveries by endpoint, so that an endpoint with a large backlog hides no other endpoint.
  create index deliveries_due on deliveries (webhook_id, next_attempt_at) where status = 'pending';
  create index deliveries_created on deliveries (created_at);

  create table webhook_attempts (
    delivery_id text collate "C" not null references deliveries on delete cascade,
    number integer not null,
    at timestamptz not null,
    duration_ms integer not null,
    url text not null,
    request_headers jsonb not null,
    status integer,
    response_headers jsonb,
    response_body text,
    error text,
    primary key (delivery_id, number)
  );
`

/** The schema of the first release. */
export const firstRelease: Migration = {
  async up(db) {
    await servers.execute(db)
    await accounts.execute(db)
    await requests.execute(db)
    await projects.execute(db)
    await trust.execute(db)
    await sources.execute(db)
    await apps.execute(db)
    await deployments.execute(db)
    await metrics.execute(db)
    await tasks.execute(db)
    await databases.execute(db)
    await domains.execute(db)
    await certificates.execute(db)
    await storage.execute(db)
    await webhooks.execute(db)
  },
}
