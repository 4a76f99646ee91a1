import type { ResponseBody } from '@fairlead/server/client'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { File as FileIcon } from 'lucide-react'
import { useState } from 'react'
import { api } from '../../../data/client.ts'
import { filesQuery, projectQuery } from '../../../data/queries.ts'
import { CopyButton } from '../../../ui/controls/copy-button.tsx'
import { Menu, MenuItem } from '../../../ui/controls/menu.tsx'
import { Confirm } from '../../../ui/dialogs/confirm-dialog.tsx'
import { bytes } from '../../../ui/display/bytes.ts'
import { Table } from '../../../ui/display/table.tsx'
import { Time } from '../../../ui/display/time.tsx'
import { Panel } from '../../../ui/page/page.tsx'
import { Queried } from '../../../ui/page/query-view.tsx'
import { Empty } from '../../../ui/page/states.tsx'
import { Uploads } from './uploads.tsx'

type StoredFile = ResponseBody<'storage.list'>['files'][number]

export function Storage() {
  const { projectId } = useParams({ from: '/frame/projects/$projectId' })
  const files = useQuery(filesQuery(projectId))
  const project = useQuery(projectQuery(projectId))
  const [deleting, setDeleting] = useState<StoredFile>()
  const queries = useQueryClient()
  const remove = useMutation({
    mutationFn: (id: string) => api.storage.delete({ params: { project_id: projectId, id } }),
    onSuccess: async () => {
      setDeleting(undefined)
      await queries.invalidateQueries({ queryKey: ['projects', projectId] })
    },
  })
  return (
    <>
      <Uploads projectId={projectId} />
      <Panel
        title="Files"
        flush
        actions={
          <span className="text-[13px] text-muted">
            {project.data && `${bytes(project.data.resources.storage_gb * 1e9)} in all`}
          </span>
        }
      >
        <Queried query={files} what="files">
          {(data) =>
            data.files.length === 0 ? (
              <Empty title="No file yet">
                <p>Every file gets an address that whoever holds it may download from.</p>
              </Empty>
            ) : (
              <Table
                label="Files"
                rows={data.files}
                keyOf={({ id }) => id}
                columns={[
                  {
                    title: 'Name',
                    cell: ({ name, url }) => (
                      <a href={url} className="inline-flex items-center gap-2 break-all hover:text-accent">
                        <FileIcon size={14} className="shrink-0 text-muted" aria-hidden="true" />
                        {name}
                      </a>
                    ),
                  },
                  { title: 'Size', cell: ({ size }) => <span className="whitespace-nowrap">{bytes(size)}</span> },
                  { title: 'Type', wide: true, cell: ({ content_type }) => content_type },
                  { title: 'Uploaded', wide: true, cell: ({ uploaded_at }) => <Time at={uploaded_at} /> },
                  {
                    title: 'Action',
                    align: 'right',
                    cell: (file) => (
                      <div className="flex justify-end gap-1">
                        <CopyButton text={new URL(file.url, location.href).href} label="Copy link" />
                        <Menu label={`Actions for ${file.name}`}>
                          <MenuItem danger onSelect={() => setDeleting(file)}>
                            Delete
                          </MenuItem>
                        </Menu>
                      </div>
                    ),
                  },
                ]}
              />
            )
          }
        </Queried>
      </Panel>
      <Confirm
        open={deleting !== undefined}
        onOpenChange={() => setDeleting(undefined)}
        title={`Delete ${deleting?.name ?? ''}?`}
        action="Delete file"
        busy={remove.isPending}
        error={remove.error}
        onConfirm={() => deleting && remove.mutate(deleting.id)}
      >
        <p>Its address stops working at once. This cannot be undone.</p>
      </Confirm>
    </>
  )
}
