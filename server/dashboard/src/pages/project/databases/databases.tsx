import type { ResponseBody } from '@fairlead/server/client'
import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { Plus } from 'lucide-react'
import { useState } from 'react'
import { databasesQuery } from '../../../data/queries.ts'
import { Button } from '../../../ui/controls/button.tsx'
import { Dialog } from '../../../ui/dialogs/dialog.tsx'
import { useLinkedDialog } from '../../../ui/dialogs/use-linked-dialog.ts'
import { Status } from '../../../ui/display/status.tsx'
import { type Column, Table } from '../../../ui/display/table.tsx'
import { Time } from '../../../ui/display/time.tsx'
import { Panel } from '../../../ui/page/page.tsx'
import { QueryView } from '../../../ui/page/query-view.tsx'
import { Empty } from '../../../ui/page/states.tsx'
import { ConnectionDialog } from './connection-dialog.tsx'
import { CreateDatabase } from './create-database.tsx'

export function Databases() {
  const { projectId } = useParams({ from: '/layout/projects/$projectId' })
  const databases = useQuery(databasesQuery(projectId))
  const [creating, setCreating] = useLinkedDialog()
  const [connection, setConnection] = useState<string>()
  return (
    <>
      <Panel
        title="Databases"
        flush
        actions={
          <Button variant="primary" size="small" icon={<Plus size={15} />} onClick={() => setCreating(true)}>
            New database
          </Button>
        }
      >
        <QueryView query={databases} label="databases">
          {(data) => <DatabasesTable projectId={projectId} databases={data.databases} />}
        </QueryView>
      </Panel>
      <Dialog open={creating} onClose={() => setCreating(false)} title="New database">
        <CreateDatabase
          projectId={projectId}
          onCancel={() => setCreating(false)}
          onCreated={(connectionString) => {
            setCreating(false)
            setConnection(connectionString)
          }}
        />
      </Dialog>
      <ConnectionDialog
        title="Connection string"
        connectionString={connection}
        onDone={() => setConnection(undefined)}
      />
    </>
  )
}

type DatabaseItem = ResponseBody<'databases.list'>['databases'][number]

interface DatabasesTableProps {
  readonly projectId: string
  readonly databases: readonly DatabaseItem[]
}

function DatabasesTable({ projectId, databases }: DatabasesTableProps) {
  const columns: readonly Column<DatabaseItem>[] = [
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
    { title: 'Engine', wideOnly: true, cell: ({ version }) => `PostgreSQL ${version}` },
    { title: 'Plan', wideOnly: true, cell: ({ plan }) => plan },
    { title: 'Created', align: 'right', cell: ({ created_at }) => <Time at={created_at} /> },
  ]
  return (
    <Table
      label="Databases"
      rows={databases}
      keyOf={({ id }) => id}
      columns={columns}
      empty={
        <Empty title="No database yet">
          <p>A PostgreSQL database, with a user that has access only to this database.</p>
        </Empty>
      }
    />
  )
}
