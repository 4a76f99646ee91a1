import { ApiError } from '@fairlead/server/client'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api } from '../../../../data/client.ts'
import { type Domain, isWildcard } from '../../../../data/domains/domains.ts'
import { Menu, MenuItem } from '../../../../ui/controls/menu.tsx'
import { ConfirmDialog } from '../../../../ui/dialogs/confirm-dialog.tsx'
import { type AppOfPage, paramsOf } from '../app-of-page.ts'

interface DomainMenuProps {
  readonly app: AppOfPage
  readonly domain: Domain
}

type Change = Parameters<typeof api.domains.update>[0]['body']

interface Asked {
  readonly title: string
  readonly action: string
  readonly text: string
  readonly change: Change
}

/** Changes and removes a domain. */
export function DomainMenu({ app, domain }: DomainMenuProps) {
  const [asked, setAsked] = useState<Asked | 'remove'>()
  const close = () => setAsked(undefined)
  const changes = changesOf(domain)
  return (
    <>
      <Menu label={`Actions for ${domain.unicode_name}`}>
        {changes.map((change) => (
          <MenuItem key={change.action} onSelect={() => setAsked(change)}>
            {change.action}
          </MenuItem>
        ))}
        <MenuItem danger onSelect={() => setAsked('remove')}>
          Remove
        </MenuItem>
      </Menu>
      {asked === 'remove' && <RemoveDomain app={app} domain={domain} onClose={close} />}
      {asked !== undefined && asked !== 'remove' && (
        <ChangeDomain app={app} domain={domain} asked={asked} onClose={close} />
      )}
    </>
  )
}

/** The changes that the state of a domain allows. */
function changesOf(domain: Domain): Asked[] {
  const { primary, redirect, status, unicode_name: name } = domain
  if (primary || isWildcard(domain)) return []
  const toPrimary: Asked = {
    title: `Make ${name} the primary domain?`,
    action: 'Make primary',
    text: 'Domains of this app that redirect send their visitors there from then on. The former one goes on serving the app.',
    change: { primary: true },
  }
  const toRedirect: Asked = {
    title: `Redirect ${name} to the primary domain?`,
    action: 'Redirect to the primary',
    text: 'Its visitors are sent to the same path at the primary domain of the app.',
    change: { redirect: true },
  }
  const toApp: Asked = {
    title: `Serve the app at ${name}?`,
    action: 'Serve without redirect',
    text: 'Its visitors get the app at this name.',
    change: { redirect: false },
  }
  return [...(status === 'pending' ? [] : [toPrimary]), redirect ? toApp : toRedirect]
}

interface DialogProps extends DomainMenuProps {
  readonly onClose: () => void
}

function useRefresh({ projectId, appId }: AppOfPage) {
  const queryClient = useQueryClient()
  return () => queryClient.invalidateQueries({ queryKey: ['projects', projectId, 'apps', appId, 'domains'] })
}

function ChangeDomain({ app, domain, asked, onClose }: DialogProps & { readonly asked: Asked }) {
  const refresh = useRefresh(app)
  const change = useMutation({
    mutationFn: () => api.domains.update({ params: { ...paramsOf(app), id: domain.id }, body: asked.change }),
    onSuccess: async () => {
      await refresh()
      onClose()
    },
  })
  return (
    <ConfirmDialog open onClose={onClose} title={asked.title} action={asked.action} mutation={change}>
      <p>{asked.text}</p>
    </ConfirmDialog>
  )
}

function RemoveDomain({ app, domain, onClose }: DialogProps) {
  const navigate = useNavigate()
  const refresh = useRefresh(app)
  const remove = useMutation({
    mutationFn: () =>
      api.domains.delete({ params: { ...paramsOf(app), id: domain.id } }).catch((error: unknown) => {
        // Another window was faster.
        if (!(error instanceof ApiError && error.code === 'not_found')) throw error
      }),
    onSuccess: async () => {
      await navigate({ to: '/projects/$projectId/apps/$appId/domains', params: app })
      await refresh()
    },
  })
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title={`Remove ${domain.unicode_name}?`}
      action="Remove domain"
      mutation={remove}
    >
      <p>
        The app is not served at this name any more, and the name is free at once. Its DNS records stay where they are:
        remove them, too.
      </p>
      {domain.primary && <p>Another served domain of the app, if there is one, becomes the primary domain.</p>}
    </ConfirmDialog>
  )
}
