import type { ResponseBody } from '@fairlead/server/client'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, useNavigate, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { api } from '../../data/client.ts'
import { webhookQuery } from '../../data/queries.ts'
import { Button } from '../../ui/controls/button.tsx'
import { Menu, MenuItem } from '../../ui/controls/menu.tsx'
import { Confirm } from '../../ui/dialogs/confirm-dialog.tsx'
import { SecretDialog } from '../../ui/dialogs/secret-dialog.tsx'
import { Facts } from '../../ui/display/description-list.tsx'
import { Status } from '../../ui/display/status.tsx'
import { Time } from '../../ui/display/time.tsx'
import { Page, Panel } from '../../ui/page/page.tsx'
import { Queried } from '../../ui/page/query-view.tsx'
import { Problem } from '../../ui/page/states.tsx'
import { Deliveries } from './deliveries.tsx'

type Detail = ResponseBody<'webhooks.get'>

const reasons: Readonly<Record<NonNullable<Detail['disabled_reason']>, string>> = {
  user: 'Somebody disabled it.',
  gone: 'It answered 410: it does not want any more.',
  failures: 'It failed for days.',
}

export function Webhook() {
  const { webhookId } = useParams({ from: '/frame/webhooks/$webhookId' })
  const webhook = useQuery(webhookQuery(webhookId))
  return (
    <Page
      title={webhook.data?.url ?? 'Webhook receiver'}
      lead={
        <>
          <Link to="/webhooks" className="hover:text-ink">
            Webhooks
          </Link>{' '}
          / <code className="text-[13px]">{webhookId}</code>
        </>
      }
      actions={webhook.data && <WebhookActions webhook={webhook.data} />}
    >
      <Queried query={webhook} what="the receiver">
        {(data) => (
          <Panel>
            <Facts
              facts={[
                ['Status', <Status key="status" value={data.status} />],
                ...(data.disabled_reason === null ? [] : [['Why', reasons[data.disabled_reason]] as const]),
                ['Events', data.events.join(', ')],
                ['Project', data.project_id ?? 'all of the account'],
                ['At most', data.rate === null ? 'no limit' : `${data.rate} a second`],
                ['Created', <Time key="created" at={data.created_at} />],
              ]}
            />
          </Panel>
        )}
      </Queried>
      <Deliveries webhookId={webhookId} />
    </Page>
  )
}

function WebhookActions({ webhook: { id, url, status } }: { readonly webhook: Detail }) {
  const [asking, setAsking] = useState<'rotate' | 'delete'>()
  const [secret, setSecret] = useState<string>()
  const queries = useQueryClient()
  const navigate = useNavigate()
  const params = { id }
  const settled = () => queries.invalidateQueries({ queryKey: ['webhooks'] })
  const test = useMutation({ mutationFn: () => api.webhooks.test({ params }), onSettled: settled })
  const toggle = useMutation({
    mutationFn: () => api.webhooks.update({ params, body: { status: status === 'enabled' ? 'disabled' : 'enabled' } }),
    onSettled: settled,
  })
  const rotate = useMutation({
    mutationFn: () => api.webhooks.rotateSecret({ params, body: {} }),
    onSuccess: (rotated) => {
      setAsking(undefined)
      setSecret(rotated.secret)
    },
  })
  const remove = useMutation({
    mutationFn: () => api.webhooks.delete({ params }),
    onSuccess: async () => {
      await navigate({ to: '/webhooks' })
      await settled()
    },
  })
  const problem = test.error ?? toggle.error
  return (
    <>
      <Button look="primary" busy={test.isPending} disabled={status === 'disabled'} onClick={() => test.mutate()}>
        Send a test
      </Button>
      <Button busy={toggle.isPending} onClick={() => toggle.mutate()}>
        {status === 'enabled' ? 'Disable' : 'Enable'}
      </Button>
      <Menu label="Further actions">
        <MenuItem onSelect={() => setAsking('rotate')}>Rotate the secret</MenuItem>
        <MenuItem danger onSelect={() => setAsking('delete')}>
          Delete
        </MenuItem>
      </Menu>
      {problem !== null && (
        <div className="w-full">
          <Problem error={problem} />
        </div>
      )}
      <Confirm
        open={asking === 'rotate'}
        onOpenChange={() => setAsking(undefined)}
        title="Rotate the signing secret?"
        action="Rotate secret"
        busy={rotate.isPending}
        error={rotate.error}
        onConfirm={() => rotate.mutate()}
      >
        <p>For 24 hours every message carries a signature of both secrets, so that you can replace the old one.</p>
      </Confirm>
      <Confirm
        open={asking === 'delete'}
        onOpenChange={() => setAsking(undefined)}
        title="Delete this receiver?"
        action="Delete receiver"
        busy={remove.isPending}
        error={remove.error}
        onConfirm={() => remove.mutate()}
      >
        <p>Nothing is sent to {url} any more, waiting deliveries included.</p>
      </Confirm>
      <SecretDialog title="New signing secret" secret={secret} onDone={() => setSecret(undefined)} />
    </>
  )
}
