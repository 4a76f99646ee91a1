import type { ResponseBody } from '@fairlead/server/client'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { api } from '../../../data/client.ts'
import { databaseQuery, projectQuery } from '../../../data/queries.ts'
import { Button } from '../../../ui/controls/button.tsx'
import { Confirm } from '../../../ui/dialogs/confirm-dialog.tsx'
import { SecretDialog } from '../../../ui/dialogs/secret-dialog.tsx'
import { bytes } from '../../../ui/display/bytes.ts'
import { Facts } from '../../../ui/display/description-list.tsx'
import { Meter } from '../../../ui/display/meter.tsx'
import { Status } from '../../../ui/display/status.tsx'
import { Time } from '../../../ui/display/time.tsx'
import { Page, Panel } from '../../../ui/page/page.tsx'
import { Queried } from '../../../ui/page/query-view.tsx'
import { Problem } from '../../../ui/page/states.tsx'
import { WaysToConnect } from './connection-examples.tsx'
import { Snapshots } from './snapshots.tsx'

type Detail = ResponseBody<'databases.get'>

export function Database() {
  const { projectId, databaseId } = useParams({ from: '/frame/projects/$projectId/databases/$databaseId' })
  const project = useQuery(projectQuery(projectId))
  const database = useQuery(databaseQuery(projectId, databaseId))
  return (
    <Page
      title={database.data?.name ?? 'Database'}
      lead={
        <>
          <Link to="/projects/$projectId" params={{ projectId }} className="hover:text-ink">
            {project.data?.name ?? 'Project'}
          </Link>{' '}
          /{' '}
          <Link to="/projects/$projectId/databases" params={{ projectId }} className="hover:text-ink">
            Databases
          </Link>{' '}
          / <code className="text-[13px]">{databaseId}</code>
        </>
      }
      actions={database.data && <DatabaseActions database={database.data} />}
    >
      <Queried query={database} what="the database">
        {(data) => (
          <>
            {data.failure !== null && (
              <section role="alert" className="rounded-lg border border-bad/40 bg-bad-soft p-4">
                {data.failure.message}
              </section>
            )}
            {data.read_only && (
              <section role="alert" className="rounded-lg border border-warn/40 bg-warn-soft p-4">
                It is larger than its plan allows and takes no writes until it is smaller again.
              </section>
            )}
            <Panel>
              <div className="grid gap-6 sm:grid-cols-2">
                <Facts
                  facts={[
                    ['Status', <Status key="status" value={data.status} />],
                    ['Engine', `PostgreSQL ${data.version}`],
                    ['Plan', data.plan],
                    ['Created', <Time key="created" at={data.created_at} />],
                    ...(data.restorable_until === null
                      ? []
                      : [['Kept until', <Time key="until" at={data.restorable_until} />] as const]),
                  ]}
                />
                <div className="grid content-start gap-4">
                  {data.size_bytes !== null && (
                    <Meter
                      label="Size"
                      value={data.size_bytes}
                      most={data.max_size_bytes}
                      text={`${bytes(data.size_bytes)} of ${bytes(data.max_size_bytes)}`}
                    />
                  )}
                  {data.connections !== null && (
                    <Meter
                      label="Connections"
                      value={data.connections}
                      most={data.max_connections}
                      text={`${data.connections} of ${data.max_connections}`}
                    />
                  )}
                </div>
              </div>
            </Panel>
            {data.status === 'available' && <Snapshots projectId={projectId} databaseId={databaseId} />}
          </>
        )}
      </Queried>
    </Page>
  )
}

function DatabaseActions({ database }: { readonly database: Detail }) {
  const { id, project_id, name, status } = database
  const [asking, setAsking] = useState<'rotate' | 'delete'>()
  const [connection, setConnection] = useState<string>()
  const queries = useQueryClient()
  const params = { project_id, id }
  const settled = () => queries.invalidateQueries({ queryKey: ['projects', project_id] })
  const done = async () => {
    setAsking(undefined)
    await settled()
  }
  const rotate = useMutation({
    mutationFn: () => api.databases.rotatePassword({ params }),
    onSuccess: async ({ connection_string }) => {
      setConnection(connection_string)
      await done()
    },
  })
  const remove = useMutation({ mutationFn: () => api.databases.delete({ params }), onSuccess: done })
  const restore = useMutation({ mutationFn: () => api.databases.restore({ params }), onSettled: settled })
  return (
    <>
      {status === 'deleting' && (
        <Button look="primary" busy={restore.isPending} onClick={() => restore.mutate()}>
          Restore
        </Button>
      )}
      {status === 'available' && <Button onClick={() => setAsking('rotate')}>Rotate password</Button>}
      {status !== 'deleting' && (
        <Button look="danger" onClick={() => setAsking('delete')}>
          Delete
        </Button>
      )}
      {restore.error !== null && <Problem error={restore.error} />}
      <Confirm
        open={asking === 'rotate'}
        onOpenChange={() => setAsking(undefined)}
        title="Rotate the password?"
        action="Rotate password"
        busy={rotate.isPending}
        error={rotate.error}
        onConfirm={() => rotate.mutate()}
      >
        <p>You get a new connection string. The old password ends at once; open connections stay open.</p>
      </Confirm>
      <Confirm
        open={asking === 'delete'}
        onOpenChange={() => setAsking(undefined)}
        title={`Delete ${name}?`}
        action="Delete database"
        typed={name}
        busy={remove.isPending}
        error={remove.error}
        onConfirm={() => remove.mutate()}
      >
        <p>Nobody can connect any more. What it holds is kept for a while, in which it can be restored.</p>
      </Confirm>
      <SecretDialog title="New connection string" secret={connection} onDone={() => setConnection(undefined)}>
        {connection !== undefined && <WaysToConnect connectionString={connection} />}
      </SecretDialog>
    </>
  )
}
