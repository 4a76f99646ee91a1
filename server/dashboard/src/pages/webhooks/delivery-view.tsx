import type { ResponseBody } from '@fairlead/server/client'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { api } from '../../data/client.ts'
import { deliveryQuery } from '../../data/queries.ts'
import { Button } from '../../ui/controls/button.tsx'
import { CodeBlock } from '../../ui/controls/code-block.tsx'
import { Status } from '../../ui/display/status.tsx'
import { formatDuration, Time } from '../../ui/display/time.tsx'
import { QueryView } from '../../ui/page/query-view.tsx'
import { ErrorAlert } from '../../ui/page/states.tsx'

export function DeliveryView({ webhookId, id }: { readonly webhookId: string; readonly id: string }) {
  const delivery = useQuery(deliveryQuery(webhookId, id))
  const queryClient = useQueryClient()
  const redeliver = useMutation({
    mutationFn: () => api.deliveries.redeliver({ params: { webhook_id: webhookId, id } }),
    onSettled: () => queryClient.invalidateQueries({ queryKey: ['webhooks', webhookId] }),
  })
  return (
    <QueryView query={delivery} label="the delivery">
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
            <Button size="small" busy={redeliver.isPending} onClick={() => redeliver.mutate()}>
              Send again
            </Button>
          </div>
          {redeliver.error !== null && <ErrorAlert error={redeliver.error} />}
          <CodeBlock label="Body of the request" code={formatJson(payload)} />
          {latest_attempts.map((attempt, index) => (
            <AttemptView key={attempt.number} attempt={attempt} open={index === 0} />
          ))}
        </div>
      )}
    </QueryView>
  )
}

interface AttemptViewProps {
  readonly attempt: ResponseBody<'deliveries.get'>['latest_attempts'][number]
  readonly open: boolean
}

function AttemptView({ attempt, open }: AttemptViewProps) {
  const { number, at, duration_ms, request, response, error } = attempt
  return (
    <details open={open} className="min-w-0 rounded-md border border-line">
      <summary className="flex cursor-pointer gap-3 px-3 py-2">
        <span className="flex-1">
          Attempt {number}: {error ?? `status ${response?.status}`}
        </span>
        <span className="text-[13px] text-muted">
          <Time at={at} /> · {duration_ms < 1000 ? `${duration_ms} ms` : formatDuration(duration_ms)}
        </span>
      </summary>
      <div className="grid gap-2 border-line border-t p-3">
        <CodeBlock label="Request" code={`POST ${request.url}\n${headerLines(request.headers)}`} />
        {response !== null && (
          <CodeBlock
            label="Response"
            code={`${response.status}\n${headerLines(response.headers)}\n\n${response.body}`}
          />
        )}
      </div>
    </details>
  )
}

function headerLines(headers: Readonly<Record<string, string>>): string {
  return Object.entries(headers)
    .map(([name, value]) => `${name}: ${value}`)
    .join('\n')
}

function formatJson(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), undefined, 2)
  } catch {
    return text
  }
}
