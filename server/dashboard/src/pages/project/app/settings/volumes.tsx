import type { ResponseBody } from '@fairlead/server/client'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api } from '../../../../data/client.ts'
import { volumesQuery } from '../../../../data/queries.ts'
import { writeQuery } from '../../../../data/write-query.ts'
import { Button } from '../../../../ui/controls/button.tsx'
import { ConfirmDialog } from '../../../../ui/dialogs/confirm-dialog.tsx'
import { formatBytes } from '../../../../ui/display/bytes.ts'
import { Table } from '../../../../ui/display/table.tsx'
import { Panel } from '../../../../ui/page/page.tsx'
import { QueryView } from '../../../../ui/page/query-view.tsx'
import { Empty } from '../../../../ui/page/states.tsx'
import { type AppOfPage, paramsOf } from '../app-of-page.ts'

type Volume = ResponseBody<'volumes.list'>['volumes'][number]

/** The folders that outlive an app's releases. A volume that no release names can be deleted. */
export function Volumes(app: AppOfPage) {
  const query = useQuery(volumesQuery(app.projectId, app.appId))
  const [asked, setAsked] = useState<string>()
  return (
    <>
      <QueryView query={query} label="the volumes">
        {({ volumes, max_bytes }) => (
          <Panel title="Volumes" flush>
            <VolumesTable volumes={volumes} mostBytes={max_bytes} onDelete={setAsked} />
          </Panel>
        )}
      </QueryView>
      {asked !== undefined && <Delete app={app} name={asked} onClose={() => setAsked(undefined)} />}
    </>
  )
}

interface TableProps {
  readonly volumes: readonly Volume[]
  readonly mostBytes: number
  readonly onDelete: (name: string) => void
}

function VolumesTable({ volumes, mostBytes, onDelete }: TableProps) {
  return (
    <Table
      label="Volumes"
      rows={volumes}
      keyOf={({ name }) => name}
      columns={[
        { title: 'Volume', cell: ({ name }) => <span className="font-medium">{name}</span> },
        {
          title: 'Path',
          cell: ({ path }) =>
            path === null ? (
              <span className="text-muted">Not used</span>
            ) : (
              <code className="wrap-anywhere">{path}</code>
            ),
        },
        { title: 'Size', align: 'right', cell: ({ bytes }) => (bytes === null ? '–' : formatBytes(bytes)) },
        {
          title: '',
          align: 'right',
          cell: ({ name, path }) =>
            path === null && (
              <Button size="small" variant="quiet" onClick={() => onDelete(name)}>
                Delete
              </Button>
            ),
        },
      ]}
      empty={
        <Empty title="No volumes">
          <p>
            Folders that releases keep: name them as volumes in fairlead.json, or as you deploy an image. The app may
            have {formatBytes(mostBytes)} on the disk, with all of them.
          </p>
        </Empty>
      }
    />
  )
}

function Delete({
  app,
  name,
  onClose,
}: {
  readonly app: AppOfPage
  readonly name: string
  readonly onClose: () => void
}) {
  const queryClient = useQueryClient()
  const remove = useMutation({
    mutationFn: () => api.volumes.update({ params: paramsOf(app), body: { delete: [name] } }),
    onSuccess: async (answer) => {
      await writeQuery(queryClient, volumesQuery(app.projectId, app.appId), answer)
      onClose()
    },
  })
  return (
    <ConfirmDialog open onClose={onClose} title={`Delete the volume ${name}?`} action="Delete" mutation={remove}>
      <p>All files in it are gone then, also for earlier releases.</p>
    </ConfirmDialog>
  )
}
