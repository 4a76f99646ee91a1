import { useMutation, useQueryClient } from '@tanstack/react-query'
import { api } from '../../../data/client.ts'
import type { App } from '../../../data/deployments.ts'
import { ConfirmDialog } from '../../../ui/dialogs/confirm-dialog.tsx'

interface DeleteAppProps {
  readonly projectId: string
  readonly app: App
  readonly onClose: () => void
}

/** Asks before it deletes an app with all its deployments. */
export function DeleteApp({ projectId, app: { id, name }, onClose }: DeleteAppProps) {
  const queryClient = useQueryClient()
  const remove = useMutation({
    mutationFn: () => api.apps.delete({ params: { project_id: projectId, id } }),
    onSuccess: async () => {
      await queryClient.invalidateQueries({ queryKey: ['projects', projectId] })
      onClose()
    },
  })
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title={`Delete ${name}?`}
      action="Delete app"
      confirmationText={name}
      mutation={remove}
    >
      <p>
        It stops immediately, and all its deployments are removed with their files and logs. Another app may get its
        address. This cannot be undone.
      </p>
    </ConfirmDialog>
  )
}
