import type { ResponseBody } from '@fairlead/server/client'
import { useQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { databaseQuery } from '../../../data/queries.ts'
import { formatBytes } from '../../../ui/display/bytes.ts'
import { DescriptionList } from '../../../ui/display/description-list.tsx'
import { Meter } from '../../../ui/display/meter.tsx'
import { Status } from '../../../ui/display/status.tsx'
import { Time } from '../../../ui/display/time.tsx'
import { Page, Panel } from '../../../ui/page/page.tsx'
import { QueryView } from '../../../ui/page/query-view.tsx'
import { Breadcrumbs } from '../breadcrumbs.tsx'
import { Links } from '../links/links.tsx'
import { DatabaseActions } from './database-actions.tsx'
import { Snapshots } from './snapshots.tsx'

type Detail = ResponseBody<'databases.get'>

const list = { label: 'Databases', to: '/projects/$projectId/databases' } as const

export function Database() {
  const { projectId, databaseId } = useParams({ from: '/layout/projects/$projectId/databases/$databaseId' })
  const database = useQuery(databaseQuery(projectId, databaseId))
  return (
    <Page
      title={database.data?.name ?? 'Database'}
      lead={<Breadcrumbs projectId={projectId} list={list} resourceId={databaseId} />}
      actions={database.data && <DatabaseActions database={database.data} />}
    >
      <QueryView query={database} label="the database">
        {(data) => (
          <>
            <Alerts database={data} />
            <Panel>
              <div className="grid gap-6 sm:grid-cols-2">
                <Details database={data} />
                <Usage database={data} />
              </div>
            </Panel>
            {data.status !== 'deleting' && <Links projectId={projectId} side={{ kind: 'database', id: databaseId }} />}
            {data.status === 'available' && <Snapshots projectId={projectId} databaseId={databaseId} />}
          </>
        )}
      </QueryView>
    </Page>
  )
}

function Alerts({ database: { status, size_bytes, failure, read_only } }: { readonly database: Detail }) {
  return (
    <>
      {status === 'available' && size_bytes === null && (
        <section role="alert" className="rounded-lg border border-bad/40 bg-bad-soft p-4">
          The PostgreSQL of this database does not answer at the moment.
        </section>
      )}
      {failure !== null && (
        <section role="alert" className="rounded-lg border border-bad/40 bg-bad-soft p-4">
          {failure.message}
        </section>
      )}
      {read_only && (
        <section role="alert" className="rounded-lg border border-warn/40 bg-warn-soft p-4">
          The database is larger than its plan allows. It is read-only until it is smaller again.
        </section>
      )}
    </>
  )
}

function Details({ database }: { readonly database: Detail }) {
  const { status, version, plan, created_at, restorable_until } = database
  return (
    <DescriptionList
      items={[
        ['Status', <Status key="status" value={status} />],
        ['Engine', `PostgreSQL ${version}`],
        ['Plan', plan],
        ['Created', <Time key="created" at={created_at} />],
        ...(restorable_until === null
          ? []
          : [['Restorable until', <Time key="until" at={restorable_until} />] as const]),
      ]}
    />
  )
}

function Usage({ database }: { readonly database: Detail }) {
  const { size_bytes, max_size_bytes, connections, max_connections } = database
  return (
    <div className="grid content-start gap-4">
      {size_bytes !== null && (
        <Meter
          label="Size"
          value={size_bytes}
          max={max_size_bytes}
          text={`${formatBytes(size_bytes)} of ${formatBytes(max_size_bytes)}`}
        />
      )}
      {connections !== null && (
        <Meter
          label="Connections"
          value={connections}
          max={max_connections}
          text={`${connections} of ${max_connections}`}
        />
      )}
    </div>
  )
}
