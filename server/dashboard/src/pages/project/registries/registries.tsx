import type { ResponseBody } from '@fairlead/server/client'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Plus } from 'lucide-react'
import { useState } from 'react'
import { api } from '../../../data/client.ts'
import { registriesQuery } from '../../../data/queries.ts'
import { Button } from '../../../ui/controls/button.tsx'
import { ConfirmDialog } from '../../../ui/dialogs/confirm-dialog.tsx'
import { type Column, Table } from '../../../ui/display/table.tsx'
import { Time } from '../../../ui/display/time.tsx'
import { Panel } from '../../../ui/page/page.tsx'
import { QueryView } from '../../../ui/page/query-view.tsx'
import { Empty } from '../../../ui/page/states.tsx'
import { StoreRegistry } from './store-registry.tsx'

type Registry = ResponseBody<'registries.list'>['registries'][number]

/** The registries of container images for which a project has credentials. */
export function Registries({ projectId }: { readonly projectId: string }) {
  const registries = useQuery(registriesQuery(projectId))
  const [storing, setStoring] = useState(false)
  const [removing, setRemoving] = useState<Registry>()
  return (
    <>
      <Panel
        title="Registries"
        flush
        actions={
          <Button size="small" icon={<Plus size={15} />} onClick={() => setStoring(true)}>
            Add credentials
          </Button>
        }
      >
        <QueryView query={registries} label="the registries">
          {({ registries: rows }) => <Rows rows={rows} onRemove={setRemoving} />}
        </QueryView>
      </Panel>
      {storing && <StoreRegistry projectId={projectId} onClose={() => setStoring(false)} />}
      {removing !== undefined && (
        <Remove projectId={projectId} registry={removing} onClose={() => setRemoving(undefined)} />
      )}
    </>
  )
}

function Rows({
  rows,
  onRemove,
}: {
  readonly rows: readonly Registry[]
  readonly onRemove: (registry: Registry) => void
}) {
  const action: Column<Registry> = {
    title: 'Action',
    align: 'right',
    cell: (row) => (
      <Button size="small" variant="danger" aria-label={`Remove ${row.registry}`} onClick={() => onRemove(row)}>
        Remove
      </Button>
    ),
  }
  return (
    <Table
      label="Registries"
      rows={rows}
      keyOf={({ id }) => id}
      columns={[...columns, action]}
      empty={
        <Empty title="No credentials">
          <p>Images of private registries need a name and a password, or a token that may pull.</p>
        </Empty>
      }
    />
  )
}

const columns: readonly Column<Registry>[] = [
  {
    title: 'Registry',
    cell: ({ registry, username }) => (
      <>
        <p className="break-all font-medium">{registry}</p>
        <p className="break-all text-[12px] text-muted">as {username}</p>
      </>
    ),
  },
  { title: 'Since', wideOnly: true, cell: ({ created_at }) => <Time at={created_at} /> },
]

interface RemoveProps {
  readonly projectId: string
  readonly registry: Registry
  readonly onClose: () => void
}

function Remove({ projectId, registry: { id, registry }, onClose }: RemoveProps) {
  const queryClient = useQueryClient()
  const remove = useMutation({
    mutationFn: () => api.registries.delete({ params: { project_id: projectId, id } }),
    onSuccess: async () => {
      await queryClient.invalidateQueries(registriesQuery(projectId))
      onClose()
    },
  })
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title={`Remove the credentials for ${registry}?`}
      action="Remove"
      mutation={remove}
    >
      <p>Later deployments have no credentials. Kept releases stay as they are, and can be rolled back to.</p>
    </ConfirmDialog>
  )
}
