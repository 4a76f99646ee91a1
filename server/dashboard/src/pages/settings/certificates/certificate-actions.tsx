import { useMutation, useQueryClient } from '@tanstack/react-query'
import { api } from '../../../data/client.ts'
import type { Certificate } from '../../../data/domains/certificates.ts'
import { Menu, MenuItem } from '../../../ui/controls/menu.tsx'
import { ConfirmDialog } from '../../../ui/dialogs/confirm-dialog.tsx'

export type Action = 'renew' | 'revoke' | 'remove'

const labels: Readonly<Record<Action, string>> = { renew: 'Renew', revoke: 'Revoke', remove: 'Remove' }

/** Issuers renew and revoke uploaded certificates. A certificate with a pending revocation is not renewed. */
function actionsOf({ source, status, expires_at, revocation_requested_at }: Certificate): readonly Action[] {
  if (source === 'uploaded') return ['remove']
  if (status === 'revoked' || revocation_requested_at !== null) return []
  return expires_at === null ? ['renew'] : ['renew', 'revoke']
}

interface MenuProps {
  readonly certificate: Certificate
  readonly onAction: (action: Action) => void
}

export function CertificateMenu({ certificate, onAction }: MenuProps) {
  const actions = actionsOf(certificate)
  if (actions.length === 0) return null
  return (
    <Menu label={`Actions for ${certificate.names[0]}`}>
      {actions.map((action) => (
        <MenuItem key={action} danger={action !== 'renew'} onSelect={() => onAction(action)}>
          {labels[action]}
        </MenuItem>
      ))}
    </Menu>
  )
}

const calls = { renew: api.certificates.renew, revoke: api.certificates.revoke, remove: api.certificates.delete }

const texts: Readonly<Record<Action, string>> = {
  renew: 'The server asks the authority for another certificate now. Visitors notice nothing of it.',
  revoke:
    'For a private key that others may have. Where the names are still served, another certificate with a new key takes its ' +
    'place first; then it is revoked at the authority, for good.',
  remove:
    'It is not shown any more at once. The server obtains another one where its names are still served, which takes some ' +
    'seconds.',
}

interface ActionProps {
  readonly action: Action
  readonly certificate: Certificate
  readonly onClose: () => void
}

/** Asks before an action on a certificate. */
export function CertificateAction({ action, certificate: { id, names }, onClose }: ActionProps) {
  const queryClient = useQueryClient()
  const mutation = useMutation<unknown>({
    mutationFn: () => calls[action]({ params: { id } }),
    onSuccess: async () => {
      await queryClient.invalidateQueries({ queryKey: ['certificates'] })
      onClose()
    },
  })
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title={`${labels[action]} the certificate of ${names[0]}?`}
      action={`${labels[action]} certificate`}
      mutation={mutation}
    >
      <p>{texts[action]}</p>
    </ConfirmDialog>
  )
}
