import type { ResponseBody } from '@fairlead/server/client'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api } from '../../../data/client.ts'
import { snapshotsQuery } from '../../../data/queries.ts'
import { Button } from '../../../ui/controls/button.tsx'
import { Menu, MenuItem } from '../../../ui/controls/menu.tsx'
import { Confirm } from '../../../ui/dialogs/confirm-dialog.tsx'
import { bytes } from '../../../ui/display/bytes.ts'
import { Status } from '../../../ui/display/status.tsx'
import { Table } from '../../../ui/display/table.tsx'
import { Time } from '../../../ui/display/time.tsx'
import { Panel } from '../../../ui/page/page.tsx'
import { Queried } from '../../../ui/page/query-view.tsx'
import { Empty, Problem } from '../../../ui/page/states.tsx'

type Snapshot = ResponseBody<'snapshots.list'>['snapshots'][number]

interface SnapshotsProps {
  readonly projectId: string
  readonly databaseId: string
}

/** The backups of a database: taken by hand, kept by count and age, put back here. */
export function Snapshots({ projectId, databaseId }: SnapshotsProps) {
  const snapshots = useQuery(snapshotsQuery(projectId, databaseId))
  const [restoring, setRestoring] = useState<Snapshot>()
  const queries = useQueryClient()
  const parent = { project_id: projectId, database_id: databaseId }
  const settled = () => queries.invalidateQueries({ queryKey: ['projects', projectId, 'databases', databaseId] })
  const take = useMutation({ mutationFn: () => api.snapshots.create({ params: parent }), onSettled: settled })
  const remove = useMutation({
    mutationFn: (id: string) => api.snapshots.delete({ params: { ...parent, id } }),
    onSettled: settled,
  })
  const restore = useMutation({
    mutationFn: (id: string) => api.snapshots.restore({ params: { ...parent, id } }),
    onSuccess: async () => {
      setRestoring(undefined)
      await settled()
    },
  })
  return (
    <Panel
      title="Snapshots"
      flush
      actions={
        <Button size="small" busy={take.isPending} onClick={() => take.mutate()}>
          Take a snapshot
        </Button>
      }
    >
      {(take.error ?? remove.error) !== null && (
        <div className="p-3">
          <Problem error={take.error ?? remove.error} />
        </div>
      )}
      <Queried query={snapshots} what="snapshots">
        {(data) =>
          data.snapshots.length === 0 ? (
            <Empty title="No snapshot yet">
              <p>A snapshot is a copy of the database as it is now. Its connections end for the time of the copy.</p>
            </Empty>
          ) : (
            <Table
              label="Snapshots"
              rows={data.snapshots}
              keyOf={({ id }) => id}
              columns={[
                { title: 'Taken', cell: ({ created_at }) => <Time at={created_at} /> },
                { title: 'Status', cell: ({ status }) => <Status value={status} /> },
                {
                  title: 'Size',
                  wide: true,
                  cell: ({ size_bytes }) => (size_bytes === null ? '–' : bytes(size_bytes)),
                },
                {
                  title: 'Action',
                  align: 'right',
                  cell: (snapshot) => (
                    <Menu label="Actions for this snapshot">
                      <MenuItem disabled={snapshot.status !== 'available'} onSelect={() => setRestoring(snapshot)}>
                        Put back
                      </MenuItem>
                      <MenuItem danger onSelect={() => remove.mutate(snapshot.id)}>
                        Delete
                      </MenuItem>
                    </Menu>
                  ),
                },
              ]}
            />
          )
        }
      </Queried>
      <Confirm
        open={restoring !== undefined}
        onOpenChange={() => setRestoring(undefined)}
        title="Put this snapshot back?"
        action="Put back"
        busy={restore.isPending}
        error={restore.error}
        onConfirm={() => restoring && restore.mutate(restoring.id)}
      >
        <p>What was written since then is lost. The connection string stays the same.</p>
      </Confirm>
    </Panel>
  )
}
