import type { ResponseBody } from '@fairlead/server/client'
import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { webhookQuery } from '../../data/queries.ts'
import { DescriptionList } from '../../ui/display/description-list.tsx'
import { Status } from '../../ui/display/status.tsx'
import { Time } from '../../ui/display/time.tsx'
import { Page, Panel } from '../../ui/page/page.tsx'
import { QueryView } from '../../ui/page/query-view.tsx'
import { Deliveries } from './deliveries.tsx'
import { WebhookActions } from './webhook-actions.tsx'

type DisabledReason = NonNullable<ResponseBody<'webhooks.get'>['disabled_reason']>

const reasons: Readonly<Record<DisabledReason, string>> = {
  user: 'A user disabled the endpoint.',
  gone: 'The endpoint answered 410 Gone: it wants no more messages.',
  failures: 'Deliveries failed for days.',
}

export function Webhook() {
  const { webhookId } = useParams({ from: '/layout/webhooks/$webhookId' })
  const webhook = useQuery(webhookQuery(webhookId))
  return (
    <Page
      title={webhook.data?.url ?? 'Webhook endpoint'}
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
      <QueryView query={webhook} label="the endpoint">
        {(data) => (
          <Panel>
            <DescriptionList
              items={[
                ['Status', <Status key="status" value={data.status} />],
                ...(data.disabled_reason === null ? [] : [['Reason', reasons[data.disabled_reason]] as const]),
                ['Events', data.events.join(', ')],
                ['Project', data.project_id ?? 'all projects of the account'],
                ['Rate limit', data.rate === null ? 'none' : `${data.rate} messages per second`],
                ['Created', <Time key="created" at={data.created_at} />],
              ]}
            />
          </Panel>
        )}
      </QueryView>
      <Deliveries webhookId={webhookId} />
    </Page>
  )
}
