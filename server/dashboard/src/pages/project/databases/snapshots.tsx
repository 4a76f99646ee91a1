import type { ResponseBody } from '@fairlead/server/client'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api } from '../../../data/client.ts'
import { snapshotsQuery } from '../../../data/queries.ts'
import { Button } from '../../../ui/controls/button.tsx'
import { Menu, MenuItem } from '../../../ui/controls/menu.tsx'
import { ConfirmDialog } from '../../../ui/dialogs/confirm-dialog.tsx'
import { formatBytes } from '../../../ui/display/bytes.ts'
import { Status } from '../../../ui/display/status.tsx'
import { type Column, Table } from '../../../ui/display/table.tsx'
import { Time } from '../../../ui/display/time.tsx'
import { Panel } from '../../../ui/page/page.tsx'
import { QueryView } from '../../../ui/page/query-view.tsx'
import { Empty, ErrorAlert } from '../../../ui/page/states.tsx'

type Snapshot = ResponseBody<'snapshots.list'>['snapshots'][number]

interface SnapshotsProps {
  readonly projectId: string
  readonly databaseId: string
}

/** The snapshots of a database: taken here, limited in number and age by the server, and restored here. */
export function Snapshots({ projectId, databaseId }: SnapshotsProps) {
  const snapshots = useQuery(snapshotsQuery(projectId, databaseId))
  const [restoring, setRestoring] = useState<Snapshot>()
  const { create, remove, restore } = useSnapshotMutations(projectId, databaseId, () => setRestoring(undefined))
  const error = create.error ?? remove.error
  return (
    <Panel
      title="Snapshots"
      flush
      actions={
        <Button size="small" busy={create.isPending} onClick={() => create.mutate()}>
          Take a snapshot
        </Button>
      }
    >
      {error !== null && (
        <div className="p-3">
          <ErrorAlert error={error} />
        </div>
      )}
      <QueryView query={snapshots} label="snapshots">
        {(data) => (
          <Table
            label="Snapshots"
            rows={data.snapshots}
            keyOf={({ id }) => id}
            columns={[...columns, actionColumn(setRestoring, ({ id }) => remove.mutate(id))]}
            empty={
              <Empty title="No snapshot yet">
                <p>
                  A snapshot is a copy of the database in its current state. Connections are closed while it is taken.
                </p>
              </Empty>
            }
          />
        )}
      </QueryView>
      <ConfirmDialog
        open={restoring !== undefined}
        onClose={() => setRestoring(undefined)}
        title="Restore this snapshot?"
        action="Restore"
        mutation={{ ...restore, mutate: () => restoring && restore.mutate(restoring.id) }}
      >
        <p>Everything written since then is lost. The connection string stays the same.</p>
      </ConfirmDialog>
    </Panel>
  )
}

function useSnapshotMutations(projectId: string, databaseId: string, onRestored: () => void) {
  const queryClient = useQueryClient()
  const params = { project_id: projectId, database_id: databaseId }
  const reload = () => queryClient.invalidateQueries({ queryKey: ['projects', projectId, 'databases', databaseId] })
  return {
    create: useMutation({ mutationFn: () => api.snapshots.create({ params }), onSettled: reload }),
    remove: useMutation({
      mutationFn: (id: string) => api.snapshots.delete({ params: { ...params, id } }),
      onSettled: reload,
    }),
    restore: useMutation({
      mutationFn: (id: string) => api.snapshots.restore({ params: { ...params, id } }),
      onSuccess: async () => {
        onRestored()
        await reload()
      },
    }),
  }
}

const columns: readonly Column<Snapshot>[] = [
  { title: 'Taken', cell: ({ created_at }) => <Time at={created_at} /> },
  { title: 'Status', cell: ({ status }) => <Status value={status} /> },
  {
    title: 'Size',
    wideOnly: true,
    cell: ({ size_bytes }) => (size_bytes === null ? '–' : formatBytes(size_bytes)),
  },
]

function actionColumn(
  onRestore: (snapshot: Snapshot) => void,
  onDelete: (snapshot: Snapshot) => void,
): Column<Snapshot> {
  return {
    title: 'Action',
    align: 'right',
    cell: (snapshot) => (
      <Menu label="Actions for this snapshot">
        <MenuItem disabled={snapshot.status !== 'available'} onSelect={() => onRestore(snapshot)}>
          Restore
        </MenuItem>
        <MenuItem danger onSelect={() => onDelete(snapshot)}>
          Delete
        </MenuItem>
      </Menu>
    ),
  }
}
