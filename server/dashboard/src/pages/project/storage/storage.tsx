import type { ResponseBody } from '@fairlead/server/client'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { api } from '../../../data/client.ts'
import { filesQuery, projectQuery } from '../../../data/queries.ts'
import { ConfirmDialog } from '../../../ui/dialogs/confirm-dialog.tsx'
import { formatBytes } from '../../../ui/display/bytes.ts'
import { Panel } from '../../../ui/page/page.tsx'
import { QueryView } from '../../../ui/page/query-view.tsx'
import { FilesTable } from './files-table.tsx'
import { Uploads } from './uploads.tsx'

type StoredFile = ResponseBody<'storage.list'>['files'][number]

export function Storage() {
  const { projectId } = useParams({ from: '/layout/projects/$projectId' })
  const files = useQuery(filesQuery(projectId))
  const project = useQuery(projectQuery(projectId))
  const [deleting, setDeleting] = useState<StoredFile>()
  const queryClient = useQueryClient()
  const remove = useMutation({
    mutationFn: (id: string) => api.storage.delete({ params: { project_id: projectId, id } }),
    onSuccess: async () => {
      setDeleting(undefined)
      await queryClient.invalidateQueries({ queryKey: ['projects', projectId] })
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
            {project.data && `${formatBytes(project.data.resources.storage_gb * 1e9)} in all`}
          </span>
        }
      >
        <QueryView query={files} label="files">
          {(data) => <FilesTable files={data.files} onDelete={setDeleting} />}
        </QueryView>
      </Panel>
      <ConfirmDialog
        open={deleting !== undefined}
        onClose={() => setDeleting(undefined)}
        title={`Delete ${deleting?.name ?? ''}?`}
        action="Delete file"
        mutation={{ ...remove, mutate: () => deleting && remove.mutate(deleting.id) }}
      >
        <p>Its URL stops working immediately. This cannot be undone.</p>
      </ConfirmDialog>
    </>
  )
}
