import { useMutation, useQueryClient } from '@tanstack/react-query'
import { api } from '../../data/client.ts'
import { ConfirmDialog } from '../../ui/dialogs/confirm-dialog.tsx'

interface KeyActionProps {
  readonly apiKey: { readonly id: string; readonly name: string }
  readonly onClose: () => void
}

export function RevokeKey({ apiKey, onClose }: KeyActionProps) {
  const queryClient = useQueryClient()
  const revoke = useMutation({
    mutationFn: () => api.apiKeys.delete({ params: { id: apiKey.id } }),
    onSuccess: async () => {
      await queryClient.invalidateQueries({ queryKey: ['api-keys'] })
      onClose()
    },
  })
  return (
    <ConfirmDialog open onClose={onClose} title={`Revoke ${apiKey.name}?`} action="Revoke key" mutation={revoke}>
      <p>Requests with this key are refused from now on. This cannot be undone.</p>
    </ConfirmDialog>
  )
}

interface RotateKeyProps extends KeyActionProps {
  /** Called with the new key. */
  readonly onRotated: (key: string) => void
}

export function RotateKey({ apiKey, onClose, onRotated }: RotateKeyProps) {
  const queryClient = useQueryClient()
  const rotate = useMutation({
    mutationFn: () => api.apiKeys.rotate({ params: { id: apiKey.id }, body: {} }),
    onSuccess: async ({ key }) => {
      await queryClient.invalidateQueries({ queryKey: ['api-keys'] })
      onRotated(key)
    },
  })
  return (
    <ConfirmDialog open onClose={onClose} title={`Rotate ${apiKey.name}?`} action="Rotate key" mutation={rotate}>
      <p>
        You get a new key with the same permissions. The old one stays valid for 24 hours, so that you can replace it.
      </p>
    </ConfirmDialog>
  )
}
