import type { ResponseBody } from '@fairlead/server/client'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api } from '../../../../data/client.ts'
import { gitCredentialsQuery } from '../../../../data/queries.ts'
import { Button } from '../../../../ui/controls/button.tsx'
import { CodeBlock } from '../../../../ui/controls/code-block.tsx'
import { ConfirmDialog } from '../../../../ui/dialogs/confirm-dialog.tsx'
import { DescriptionList } from '../../../../ui/display/description-list.tsx'
import { Time } from '../../../../ui/display/time.tsx'
import { Panel } from '../../../../ui/page/page.tsx'
import { QueryView } from '../../../../ui/page/query-view.tsx'
import { type AppOfPage, paramsOf } from '../app-of-page.ts'
import { StoreCredentials } from './store-credentials.tsx'

type Access = ResponseBody<'gitCredentials.get'>
type Credentials = NonNullable<Access['git_credentials']>
type Asked = 'store' | 'remove' | 'forget'

/** The credentials of an app for its private repository, and the ssh hosts that it knows. */
export function GitCredentials(app: AppOfPage) {
  const access = useQuery(gitCredentialsQuery(app.projectId, app.appId))
  const [asked, setAsked] = useState<Asked>()
  const close = () => setAsked(undefined)
  return (
    <>
      <QueryView query={access} label="the git credentials">
        {({ git_credentials: stored, known_hosts }) => (
          <>
            <Panel
              title="Git credentials"
              actions={
                <>
                  {stored !== null && (
                    <Button size="small" variant="quiet" onClick={() => setAsked('remove')}>
                      Remove
                    </Button>
                  )}
                  <Button size="small" onClick={() => setAsked('store')}>
                    {stored === null ? 'Add credentials' : 'Replace'}
                  </Button>
                </>
              }
            >
              {stored === null ? (
                <p className="text-muted">None. Deployments of a private repository need a token or a deploy key.</p>
              ) : (
                <Stored credentials={stored} />
              )}
            </Panel>
            {known_hosts.length > 0 && <Hosts hosts={known_hosts} onForget={() => setAsked('forget')} />}
          </>
        )}
      </QueryView>
      {asked === 'store' && <StoreCredentials app={app} onClose={close} />}
      {asked === 'remove' && <Remove app={app} onClose={close} />}
      {asked === 'forget' && <Forget app={app} onClose={close} />}
    </>
  )
}

function Stored({ credentials }: { readonly credentials: Credentials }) {
  const { kind, git_url, public_key, fingerprint, created_at } = credentials
  return (
    <div className="grid gap-4">
      <DescriptionList
        items={[
          ['Kind', kind === 'token' ? 'Token' : 'Deploy key'],
          ['Repository', <code key="url">{git_url}</code>],
          ['Since', <Time key="at" at={created_at} />],
          ...(fingerprint === null ? [] : [['Fingerprint', <code key="print">{fingerprint}</code>] as const]),
        ]}
      />
      {public_key !== null && (
        <div className="grid gap-2">
          <CodeBlock code={public_key} label="Public key" wrap />
          <p className="text-[13px] text-muted">
            Add this key to the repository as a read-only one, and deploy {git_url}. The private part stays in the
            server.
          </p>
        </div>
      )}
    </div>
  )
}

function Hosts({ hosts, onForget }: { readonly hosts: Access['known_hosts']; readonly onForget: () => void }) {
  return (
    <Panel
      title="Known ssh hosts"
      actions={
        <Button size="small" variant="quiet" onClick={onForget}>
          Forget
        </Button>
      }
    >
      <ul className="grid gap-2">
        {hosts.map(({ host, fingerprint, met_at }) => (
          <li key={host} className="flex flex-wrap gap-x-3">
            <span className="font-medium">{host}</span>
            <code className="wrap-anywhere min-w-0 flex-1">{fingerprint}</code>
            <span className="text-muted">
              <Time at={met_at} />
            </span>
          </li>
        ))}
      </ul>
      <p className="mt-3 text-[13px] text-muted">
        Compare each fingerprint with the fingerprint that the host publishes. A host with another key is refused.
      </p>
    </Panel>
  )
}

interface DialogProps {
  readonly app: AppOfPage
  readonly onClose: () => void
}

function useChange({ projectId, appId }: AppOfPage, onDone: () => void, change: () => Promise<unknown>) {
  const queryClient = useQueryClient()
  return useMutation({
    mutationFn: change,
    onSuccess: async () => {
      await queryClient.invalidateQueries(gitCredentialsQuery(projectId, appId))
      onDone()
    },
  })
}

function Remove({ app, onClose }: DialogProps) {
  const remove = useChange(app, onClose, () => api.gitCredentials.delete({ params: paramsOf(app) }))
  return (
    <ConfirmDialog open onClose={onClose} title="Remove the credentials?" action="Remove" mutation={remove}>
      <p>Later deployments have no credentials. The running release stays as it is.</p>
    </ConfirmDialog>
  )
}

function Forget({ app, onClose }: DialogProps) {
  const forget = useChange(app, onClose, () => api.gitCredentials.forgetHosts({ params: paramsOf(app) }))
  return (
    <ConfirmDialog open onClose={onClose} title="Forget the known hosts?" action="Forget" mutation={forget}>
      <p>
        The next deployment accepts the key that a host shows. Do this when the owner of the host has changed its key.
      </p>
    </ConfirmDialog>
  )
}
