import type { ResponseBody } from '@fairlead/server/client'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { api } from '../../../../data/client.ts'
import { runQuery } from '../../../../data/queries.ts'
import { textOfWords } from '../../../../data/run/command-words.ts'
import { textOfEnd } from '../../../../data/run/runs.ts'
import { Button } from '../../../../ui/controls/button.tsx'
import { CodeBlock } from '../../../../ui/controls/code-block.tsx'
import { Dialog } from '../../../../ui/dialogs/dialog.tsx'
import { DescriptionList } from '../../../../ui/display/description-list.tsx'
import { Status } from '../../../../ui/display/status.tsx'
import { Time } from '../../../../ui/display/time.tsx'
import { Form } from '../../../../ui/forms/form.tsx'
import { QueryView } from '../../../../ui/page/query-view.tsx'
import { type AppOfPage, paramsOf } from '../app-of-page.ts'

interface RunDialogProps {
  readonly app: AppOfPage
  readonly id: string
  readonly onClose: () => void
}

/** One run with its result and its stored output. */
export function RunDialog({ app, id, onClose }: RunDialogProps) {
  const run = useQuery(runQuery(app.projectId, app.appId, id))
  return (
    <Dialog open onClose={onClose} title="Run" description={<code className="text-[12px]">{id}</code>}>
      <QueryView query={run} label="the run">
        {(data) => (
          <div className="grid grid-cols-[minmax(0,1fr)] gap-4">
            <DescriptionList
              items={[
                ['Status', <Status key="status" value={data.status} />],
                ...(textOfEnd(data) === '' ? [] : ([['End', textOfEnd(data)]] as const)),
                ...(data.problem === null ? [] : ([['Reason', data.problem]] as const)),
                ...(data.due_at === null ? [] : ([['For', <Time key="due" at={data.due_at} />]] as const)),
                ['Release', <ReleaseLink key="release" app={app} deploymentId={data.deployment_id} />],
              ]}
            />
            <CodeBlock wrap label="Command" code={textOfWords(data.command)} />
            <Output run={data} />
            {data.finished_at === null && <EndRun app={app} run={data} />}
          </div>
        )}
      </QueryView>
    </Dialog>
  )
}

function ReleaseLink({ app, deploymentId }: { readonly app: AppOfPage; readonly deploymentId: string | null }) {
  if (deploymentId === null) return '–'
  return (
    <Link
      to="/projects/$projectId/deployments/$deploymentId"
      params={{ projectId: app.projectId, deploymentId }}
      className="break-all text-accent hover:underline"
    >
      {deploymentId}
    </Link>
  )
}

type Output = Pick<ResponseBody<'runs.get'>, 'output' | 'terminal' | 'finished_at'>

function Output({ run: { output, terminal, finished_at } }: { readonly run: Output }) {
  if (terminal) return <p className="text-muted">The output of a terminal is not stored.</p>
  if (finished_at === null) return <p className="text-muted">Its output is stored when it ends.</p>
  if (output === null || output === '') return <p className="text-muted">No output is stored.</p>
  return <CodeBlock wrap label="The end of its output" code={output} />
}

/** Ends a running command, also of a schedule, after a question. */
function EndRun({ app, run }: { readonly app: AppOfPage; readonly run: Pick<ResponseBody<'runs.get'>, 'id'> }) {
  const [asking, setAsking] = useState(false)
  const queryClient = useQueryClient()
  const end = useMutation({
    mutationFn: () => api.runs.cancel({ params: { ...paramsOf(app), id: run.id } }),
    onSuccess: () =>
      queryClient.invalidateQueries({ queryKey: ['projects', app.projectId, 'apps', app.appId, 'runs'] }),
  })
  if (end.isSuccess) return <output className="text-muted">It is being ended.</output>
  if (!asking) {
    return (
      <div>
        <Button onClick={() => setAsking(true)}>End command</Button>
      </div>
    )
  }
  return (
    <Form
      mutation={{ ...end, mutate: () => end.mutate() }}
      submit="End it now"
      danger
      onCancel={() => setAsking(false)}
    >
      <p>The command gets SIGTERM, and is killed some seconds later. Its changes stay.</p>
    </Form>
  )
}
