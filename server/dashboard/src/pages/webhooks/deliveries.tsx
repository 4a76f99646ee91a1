import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api } from '../../data/client.ts'
import { deliveriesQuery, deliveryQuery } from '../../data/queries.ts'
import { Button } from '../../ui/controls/button.tsx'
import { CodeBlock } from '../../ui/controls/copy-button.tsx'
import { Dialog } from '../../ui/dialogs/dialog.tsx'
import { DottedName } from '../../ui/display/dotted-name.tsx'
import { Status } from '../../ui/display/status.tsx'
import { Table } from '../../ui/display/table.tsx'
import { duration, Time } from '../../ui/display/time.tsx'
import { inputClass } from '../../ui/forms/field.tsx'
import { Panel } from '../../ui/page/page.tsx'
import { Queried } from '../../ui/page/query-view.tsx'
import { Empty, Problem } from '../../ui/page/states.tsx'

type Filter = 'pending' | 'succeeded' | 'failed'

/** What was sent to a receiver, what it answered, and sending it again. */
export function Deliveries({ webhookId }: { readonly webhookId: string }) {
  const [filter, setFilter] = useState<Filter>()
  const [opened, setOpened] = useState<string>()
  const deliveries = useQuery(deliveriesQuery(webhookId, filter))
  return (
    <Panel
      title="Deliveries"
      flush
      actions={
        <select
          aria-label="Show deliveries that"
          className={`${inputClass} !h-7 !w-auto`}
          value={filter ?? ''}
          onChange={({ target }) => setFilter(target.value === '' ? undefined : (target.value as Filter))}
        >
          <option value="">all</option>
          <option value="pending">pending</option>
          <option value="succeeded">succeeded</option>
          <option value="failed">failed</option>
        </select>
      }
    >
      <Queried query={deliveries} what="deliveries">
        {(data) =>
          data.deliveries.length === 0 ? (
            <Empty title="Nothing has been sent yet.">
              <p>Send a test to see one.</p>
            </Empty>
          ) : (
            <Table
              label="Deliveries"
              rows={data.deliveries}
              keyOf={({ id }) => id}
              columns={[
                {
                  title: 'Event',
                  cell: ({ id, event }) => (
                    <button
                      type="button"
                      className="text-left font-medium hover:text-accent"
                      onClick={() => setOpened(id)}
                    >
                      <DottedName name={event} />
                    </button>
                  ),
                },
                { title: 'Status', cell: ({ status }) => <Status value={status} /> },
                {
                  title: 'Last answer',
                  wide: true,
                  cell: ({ last_status, last_error }) => last_error ?? last_status ?? '–',
                },
                { title: 'Attempts', wide: true, cell: ({ attempts }) => attempts },
                { title: 'When', align: 'right', cell: ({ created_at }) => <Time at={created_at} /> },
              ]}
            />
          )
        }
      </Queried>
      <Dialog
        open={opened !== undefined}
        onOpenChange={() => setOpened(undefined)}
        title="Delivery"
        description={<code className="text-[12px]">{opened}</code>}
      >
        {opened !== undefined && <DeliveryView webhookId={webhookId} id={opened} />}
      </Dialog>
    </Panel>
  )
}

function DeliveryView({ webhookId, id }: { readonly webhookId: string; readonly id: string }) {
  const delivery = useQuery(deliveryQuery(webhookId, id))
  const queries = useQueryClient()
  const again = useMutation({
    mutationFn: () => api.deliveries.redeliver({ params: { webhook_id: webhookId, id } }),
    onSettled: () => queries.invalidateQueries({ queryKey: ['webhooks', webhookId] }),
  })
  return (
    <Queried query={delivery} what="the delivery">
      {({ status, payload, latest_attempts, next_attempt_at }) => (
        <div className="grid gap-4">
          <div className="flex items-center gap-3">
            <Status value={status} />
            <span className="flex-1 text-[13px] text-muted">
              {next_attempt_at !== null && (
                <>
                  next attempt <Time at={next_attempt_at} />
                </>
              )}
            </span>
            <Button size="small" busy={again.isPending} onClick={() => again.mutate()}>
              Send again
            </Button>
          </div>
          {again.error !== null && <Problem error={again.error} />}
          <CodeBlock label="Body of the request" code={pretty(payload)} />
          {latest_attempts.map(({ number, at, duration_ms, request, response, error }) => (
            <details
              key={number}
              open={number === latest_attempts[0]?.number}
              className="min-w-0 rounded-md border border-line"
            >
              <summary className="flex cursor-pointer gap-3 px-3 py-2">
                <span className="flex-1">
                  Attempt {number}: {error ?? `answer ${response?.status}`}
                </span>
                <span className="text-[13px] text-muted">
                  <Time at={at} /> · {duration_ms < 1000 ? `${duration_ms} ms` : duration(duration_ms)}
                </span>
              </summary>
              <div className="grid gap-2 border-line border-t p-3">
                <CodeBlock label="Request" code={`POST ${request.url}\n${headerLines(request.headers)}`} />
                {response !== null && (
                  <CodeBlock
                    label="Answer"
                    code={`${response.status}\n${headerLines(response.headers)}\n\n${response.body}`}
                  />
                )}
              </div>
            </details>
          ))}
        </div>
      )}
    </Queried>
  )
}

function headerLines(headers: Readonly<Record<string, string>>): string {
  return Object.entries(headers)
    .map(([name, value]) => `${name}: ${value}`)
    .join('\n')
}

function pretty(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), undefined, 2)
  } catch {
    return json
  }
}
