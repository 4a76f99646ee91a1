import type { ResponseBody } from '@fairlead/server/client'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api } from '../../data/client.ts'
import { Button } from '../../ui/controls/button.tsx'
import { Menu, MenuItem } from '../../ui/controls/menu.tsx'
import { ConfirmDialog } from '../../ui/dialogs/confirm-dialog.tsx'
import { SecretDialog } from '../../ui/dialogs/secret-dialog.tsx'
import { ErrorAlert } from '../../ui/page/states.tsx'

interface WebhookActionsProps {
  readonly webhook: ResponseBody<'webhooks.get'>
}

export function WebhookActions({ webhook: { id, url, status } }: WebhookActionsProps) {
  const [confirming, setConfirming] = useState<'rotate' | 'delete'>()
  const queryClient = useQueryClient()
  const reload = () => queryClient.invalidateQueries({ queryKey: ['webhooks'] })
  const test = useMutation({ mutationFn: () => api.webhooks.test({ params: { id } }), onSettled: reload })
  const toggle = useMutation({
    mutationFn: () =>
      api.webhooks.update({ params: { id }, body: { status: status === 'enabled' ? 'disabled' : 'enabled' } }),
    onSettled: reload,
  })
  const error = test.error ?? toggle.error
  const close = () => setConfirming(undefined)
  return (
    <>
      <Button variant="primary" busy={test.isPending} disabled={status === 'disabled'} onClick={() => test.mutate()}>
        Send a test
      </Button>
      <Button busy={toggle.isPending} onClick={() => toggle.mutate()}>
        {status === 'enabled' ? 'Disable' : 'Enable'}
      </Button>
      <Menu label="Further actions">
        <MenuItem onSelect={() => setConfirming('rotate')}>Rotate the secret</MenuItem>
        <MenuItem danger onSelect={() => setConfirming('delete')}>
          Delete
        </MenuItem>
      </Menu>
      {error !== null && (
        <div className="w-full">
          <ErrorAlert error={error} />
        </div>
      )}
      <RotateSecret id={id} open={confirming === 'rotate'} onClose={close} />
      <DeleteWebhook id={id} url={url} open={confirming === 'delete'} onClose={close} />
    </>
  )
}

interface ActionProps {
  readonly id: string
  readonly open: boolean
  readonly onClose: () => void
}

function RotateSecret({ id, open, onClose }: ActionProps) {
  const [secret, setSecret] = useState<string>()
  const rotate = useMutation({
    mutationFn: () => api.webhooks.rotateSecret({ params: { id }, body: {} }),
    onSuccess: (rotated) => {
      onClose()
      setSecret(rotated.secret)
    },
  })
  return (
    <>
      <ConfirmDialog
        open={open}
        onClose={onClose}
        title="Rotate the signing secret?"
        action="Rotate secret"
        mutation={rotate}
      >
        <p>For 24 hours every message is signed with both secrets, so that you can replace the old one.</p>
      </ConfirmDialog>
      <SecretDialog title="New signing secret" secret={secret} onDone={() => setSecret(undefined)} />
    </>
  )
}

function DeleteWebhook({ id, url, open, onClose }: ActionProps & { readonly url: string }) {
  const queryClient = useQueryClient()
  const navigate = useNavigate()
  const remove = useMutation({
    mutationFn: () => api.webhooks.delete({ params: { id } }),
    onSuccess: async () => {
      await navigate({ to: '/webhooks' })
      await queryClient.invalidateQueries({ queryKey: ['webhooks'] })
    },
  })
  return (
    <ConfirmDialog
      open={open}
      onClose={onClose}
      title="Delete this endpoint?"
      action="Delete endpoint"
      mutation={remove}
    >
      <p>Nothing more is sent to {url}. Pending deliveries are dropped.</p>
    </ConfirmDialog>
  )
}
