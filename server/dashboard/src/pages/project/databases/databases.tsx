import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { Plus } from 'lucide-react'
import { useState } from 'react'
import { api } from '../../../data/client.ts'
import { databasesQuery } from '../../../data/queries.ts'
import { Button } from '../../../ui/controls/button.tsx'
import { Dialog } from '../../../ui/dialogs/dialog.tsx'
import { SecretDialog } from '../../../ui/dialogs/secret-dialog.tsx'
import { Status } from '../../../ui/display/status.tsx'
import { Table } from '../../../ui/display/table.tsx'
import { Time } from '../../../ui/display/time.tsx'
import { SelectField, TextField } from '../../../ui/forms/field.tsx'
import { Form, textOf } from '../../../ui/forms/form.tsx'
import { Panel } from '../../../ui/page/page.tsx'
import { Queried } from '../../../ui/page/query-view.tsx'
import { Empty } from '../../../ui/page/states.tsx'
import { WaysToConnect } from './connection-examples.tsx'

export function Databases() {
  const { projectId } = useParams({ from: '/frame/projects/$projectId' })
  const databases = useQuery(databasesQuery(projectId))
  const [creating, setCreating] = useState(false)
  const [connection, setConnection] = useState<string>()
  return (
    <>
      <Panel
        title="Databases"
        flush
        actions={
          <Button look="primary" size="small" icon={<Plus size={15} />} onClick={() => setCreating(true)}>
            New database
          </Button>
        }
      >
        <Queried query={databases} what="databases">
          {(data) =>
            data.databases.length === 0 ? (
              <Empty title="No database yet">
                <p>A PostgreSQL database of your own, with a user that can do nothing elsewhere.</p>
              </Empty>
            ) : (
              <Table
                label="Databases"
                rows={data.databases}
                keyOf={({ id }) => id}
                columns={[
                  {
                    title: 'Name',
                    cell: ({ id, name }) => (
                      <Link
                        to="/projects/$projectId/databases/$databaseId"
                        params={{ projectId, databaseId: id }}
                        className="font-medium hover:text-accent"
                      >
                        {name}
                      </Link>
                    ),
                  },
                  { title: 'Status', cell: ({ status }) => <Status value={status} /> },
                  { title: 'Engine', wide: true, cell: ({ version }) => `PostgreSQL ${version}` },
                  { title: 'Plan', wide: true, cell: ({ plan }) => plan },
                  { title: 'Created', align: 'right', cell: ({ created_at }) => <Time at={created_at} /> },
                ]}
              />
            )
          }
        </Queried>
      </Panel>
      <Dialog open={creating} onOpenChange={setCreating} title="New database">
        <CreateDatabase
          projectId={projectId}
          onCancel={() => setCreating(false)}
          onCreated={(string) => {
            setCreating(false)
            setConnection(string)
          }}
        />
      </Dialog>
      <SecretDialog title="Connection string" secret={connection} onDone={() => setConnection(undefined)}>
        {connection !== undefined && <WaysToConnect connectionString={connection} />}
      </SecretDialog>
    </>
  )
}

interface CreateDatabaseProps {
  readonly projectId: string
  readonly onCancel: () => void
  readonly onCreated: (connectionString: string) => void
}

function CreateDatabase({ projectId, onCancel, onCreated }: CreateDatabaseProps) {
  const queries = useQueryClient()
  const create = useMutation({
    mutationFn: (values: FormData) => {
      const [version, plan] = [textOf(values, 'version'), textOf(values, 'plan')]
      return api.databases.create({
        params: { project_id: projectId },
        body: { name: textOf(values, 'name'), ...(version !== '' && { version }), ...(plan !== '' && { plan }) },
      })
    },
    onSuccess: async ({ connection_string }) => {
      await queries.invalidateQueries({ queryKey: ['projects', projectId] })
      onCreated(connection_string)
    },
  })
  return (
    <Form sending={create} submit="Create database" onCancel={onCancel}>
      <TextField label="Name" name="name" autoComplete="off" />
      <div className="grid gap-4 sm:grid-cols-2">
        <SelectField label="PostgreSQL" name="version">
          <option value="">the newest</option>
          <option>18</option>
          <option>17</option>
          <option>16</option>
          <option>15</option>
        </SelectField>
        <TextField label="Plan" name="plan" placeholder="starter" autoComplete="off" />
      </div>
    </Form>
  )
}
