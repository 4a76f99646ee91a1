import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Plus } from 'lucide-react'
import { useState } from 'react'
import { api } from '../../data/client.ts'
import { projectsQuery, webhooksQuery } from '../../data/queries.ts'
import { receiverSnippet } from '../../data/snippets.ts'
import { Button } from '../../ui/controls/button.tsx'
import { CodeBlock } from '../../ui/controls/copy-button.tsx'
import { Dialog } from '../../ui/dialogs/dialog.tsx'
import { SecretDialog } from '../../ui/dialogs/secret-dialog.tsx'
import { Status } from '../../ui/display/status.tsx'
import { Table } from '../../ui/display/table.tsx'
import { Time } from '../../ui/display/time.tsx'
import { SelectField, TextField } from '../../ui/forms/field.tsx'
import { Form, textOf } from '../../ui/forms/form.tsx'
import { Page, Panel } from '../../ui/page/page.tsx'
import { Queried } from '../../ui/page/query-view.tsx'
import { Empty } from '../../ui/page/states.tsx'

export function Webhooks() {
  const webhooks = useQuery(webhooksQuery)
  const [creating, setCreating] = useState(false)
  const [secret, setSecret] = useState<string>()
  return (
    <Page
      title="Webhooks"
      lead="Addresses that are told what happens, signed as Standard Webhooks says."
      actions={
        <Button look="primary" icon={<Plus size={16} />} onClick={() => setCreating(true)}>
          New receiver
        </Button>
      }
    >
      <Panel flush>
        <Queried query={webhooks} what="webhook receivers">
          {(data) =>
            data.webhooks.length === 0 ? (
              <Empty title="No receiver yet">
                <p>A receiver gets a signed message for each event, and gets it again until it has taken it.</p>
              </Empty>
            ) : (
              <Table
                label="Webhook receivers"
                rows={data.webhooks}
                keyOf={({ id }) => id}
                columns={[
                  {
                    title: 'Address',
                    cell: ({ id, url }) => (
                      <Link
                        to="/webhooks/$webhookId"
                        params={{ webhookId: id }}
                        className="break-all font-medium hover:text-accent"
                      >
                        {url}
                      </Link>
                    ),
                  },
                  { title: 'Status', cell: ({ status }) => <Status value={status} /> },
                  { title: 'Events', wide: true, cell: ({ events }) => events.join(', ') },
                  { title: 'Created', align: 'right', wide: true, cell: ({ created_at }) => <Time at={created_at} /> },
                ]}
              />
            )
          }
        </Queried>
      </Panel>
      <Dialog open={creating} onOpenChange={setCreating} title="New webhook receiver">
        <CreateWebhook
          onCancel={() => setCreating(false)}
          onCreated={(made) => {
            setCreating(false)
            setSecret(made)
          }}
        />
      </Dialog>
      <SecretDialog title="Signing secret" secret={secret} onDone={() => setSecret(undefined)}>
        <p className="text-muted">
          A Koa app verifies with it as follows; it reads the secret from <code>FAIRLEAD_WEBHOOK_SECRET</code>.
        </p>
        <CodeBlock label="Code of a receiver" code={receiverSnippet} />
      </SecretDialog>
    </Page>
  )
}

const eventChoices = [
  { value: '*', label: 'Everything' },
  { value: 'deployment.*', label: 'All of deployments' },
  { value: 'deployment.succeeded', label: 'Deployments that succeeded' },
  { value: 'deployment.failed', label: 'Deployments that failed' },
  { value: 'database.*', label: 'All of databases' },
  { value: 'file.*', label: 'All of files' },
] as const
type EventChoice = (typeof eventChoices)[number]['value']

interface CreateWebhookProps {
  readonly onCancel: () => void
  /** Called with the signing secret. */
  readonly onCreated: (secret: string) => void
}

function CreateWebhook({ onCancel, onCreated }: CreateWebhookProps) {
  const queries = useQueryClient()
  const projects = useQuery(projectsQuery)
  const create = useMutation({
    mutationFn: (values: FormData) => {
      const projectId = textOf(values, 'project_id')
      return api.webhooks.create({
        body: {
          url: textOf(values, 'url'),
          events: [textOf(values, 'events') as EventChoice],
          ...(projectId !== '' && { project_id: projectId }),
        },
      })
    },
    onSuccess: async ({ secret }) => {
      await queries.invalidateQueries({ queryKey: ['webhooks'] })
      onCreated(secret)
    },
  })
  return (
    <Form sending={create} submit="Create receiver" onCancel={onCancel}>
      <TextField
        label="Address"
        name="url"
        type="url"
        autoComplete="off"
        placeholder="https://example.com/webhooks/fairlead"
      />
      <SelectField label="Events" name="events">
        {eventChoices.map(({ value, label }) => (
          <option key={value} value={value}>
            {label}
          </option>
        ))}
      </SelectField>
      <SelectField label="Project" name="project_id">
        <option value="">All of the account</option>
        {projects.data?.projects.map(({ id, name }) => (
          <option key={id} value={id}>
            {name}
          </option>
        ))}
      </SelectField>
    </Form>
  )
}
