import type { ResponseBody } from '@fairlead/server/client'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Plus } from 'lucide-react'
import { useState } from 'react'
import { webhooksQuery } from '../../data/queries.ts'
import { receiverSnippet } from '../../data/snippets.ts'
import { Button } from '../../ui/controls/button.tsx'
import { CodeBlock } from '../../ui/controls/code-block.tsx'
import { Dialog } from '../../ui/dialogs/dialog.tsx'
import { SecretDialog } from '../../ui/dialogs/secret-dialog.tsx'
import { useLinkedDialog } from '../../ui/dialogs/use-linked-dialog.ts'
import { Status } from '../../ui/display/status.tsx'
import { type Column, Table } from '../../ui/display/table.tsx'
import { Time } from '../../ui/display/time.tsx'
import { Page, Panel } from '../../ui/page/page.tsx'
import { QueryView } from '../../ui/page/query-view.tsx'
import { Empty } from '../../ui/page/states.tsx'
import { CreateWebhook } from './create-webhook.tsx'

export function Webhooks() {
  const webhooks = useQuery(webhooksQuery)
  const [creating, setCreating] = useLinkedDialog()
  const [secret, setSecret] = useState<string>()
  return (
    <Page
      title="Webhooks"
      lead="Endpoints that are notified of events. Messages are signed according to Standard Webhooks."
      actions={
        <Button variant="primary" icon={<Plus size={16} />} onClick={() => setCreating(true)}>
          New endpoint
        </Button>
      }
    >
      <Panel flush>
        <QueryView query={webhooks} label="webhook endpoints">
          {(data) => <WebhooksTable webhooks={data.webhooks} />}
        </QueryView>
      </Panel>
      <Dialog open={creating} onClose={() => setCreating(false)} title="New webhook endpoint">
        <CreateWebhook
          onCancel={() => setCreating(false)}
          onCreated={(created) => {
            setCreating(false)
            setSecret(created)
          }}
        />
      </Dialog>
      <SecretDialog title="Signing secret" secret={secret} onDone={() => setSecret(undefined)}>
        <p className="text-muted">
          A Koa app verifies messages like this. It reads the secret from <code>FAIRLEAD_WEBHOOK_SECRET</code>.
        </p>
        <CodeBlock label="Code that receives webhooks" code={receiverSnippet} />
      </SecretDialog>
    </Page>
  )
}

type Webhook = ResponseBody<'webhooks.list'>['webhooks'][number]

function WebhooksTable({ webhooks }: { readonly webhooks: readonly Webhook[] }) {
  return (
    <Table
      label="Webhook endpoints"
      rows={webhooks}
      keyOf={({ id }) => id}
      columns={columns}
      empty={
        <Empty title="No endpoint yet">
          <p>An endpoint gets a signed message for each event. Delivery is retried until the endpoint accepts it.</p>
        </Empty>
      }
    />
  )
}

const columns: readonly Column<Webhook>[] = [
  {
    title: 'URL',
    cell: ({ id, url }) => (
      <Link to="/webhooks/$webhookId" params={{ webhookId: id }} className="break-all font-medium hover:text-accent">
        {url}
      </Link>
    ),
  },
  { title: 'Status', cell: ({ status }) => <Status value={status} /> },
  { title: 'Events', wideOnly: true, cell: ({ events }) => events.join(', ') },
  { title: 'Created', align: 'right', wideOnly: true, cell: ({ created_at }) => <Time at={created_at} /> },
]
