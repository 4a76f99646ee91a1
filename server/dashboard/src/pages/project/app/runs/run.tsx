import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useBlocker, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { api } from '../../../../data/client.ts'
import { wordsOf } from '../../../../data/run/command-words.ts'
import { ConfirmDialog } from '../../../../ui/dialogs/confirm-dialog.tsx'
import { SelectField } from '../../../../ui/forms/field.tsx'
import { Form } from '../../../../ui/forms/form.tsx'
import { textOf } from '../../../../ui/forms/values.ts'
import { Panel } from '../../../../ui/page/page.tsx'
import { type AppOfPage, paramsOf } from '../app-of-page.ts'
import { CommandField } from './command-field.tsx'
import { type ConnectableRun, RunSession } from './run-session.tsx'
import { Runs } from './runs.tsx'

/** Runs one-off commands of an app, and programs that need a terminal. */
export function Run() {
  const app = useParams({ from: '/layout/projects/$projectId/apps/$appId' })
  const queryClient = useQueryClient()
  const [run, setRun] = useState<ConnectableRun>()
  const [isUnderWay, setUnderWay] = useState(false)
  const readHistory = () =>
    queryClient.invalidateQueries({ queryKey: ['projects', app.projectId, 'apps', app.appId, 'runs'] })
  return (
    <>
      {!isUnderWay && (
        <Panel title="Run a command">
          <StartRun
            app={app}
            onStart={(made) => {
              setRun(made)
              setUnderWay(true)
              void readHistory()
            }}
          />
        </Panel>
      )}
      {run !== undefined && (
        <RunSession
          key={run.id}
          run={run}
          onEnd={() => {
            setUnderWay(false)
            void readHistory()
          }}
        />
      )}
      <Runs app={app} />
      <AskBeforeLeaving isUnderWay={isUnderWay} />
    </>
  )
}

interface StartRunProps {
  readonly app: AppOfPage
  readonly onStart: (run: ConnectableRun) => void
}

/** The terminal has this size until it is shown. */
const firstSize = { columns: 80, rows: 24 }

function StartRun({ app, onStart }: StartRunProps) {
  const [problem, setProblem] = useState<string>()
  const start = useMutation({
    mutationFn: ({ command, terminal }: { readonly command: string[]; readonly terminal: boolean }) =>
      api.runs.create({ params: paramsOf(app), body: { command, terminal: terminal ? firstSize : null } }),
    onSuccess: onStart,
  })
  const mutate = (values: FormData) => {
    const terminal = textOf(values, 'kind') === 'terminal'
    const words = wordsOf(textOf(values, 'command'))
    if (words === null) return setProblem('A quote is not closed.')
    if (words.length === 0 && !terminal) return setProblem('Name a program, such as npm run migrate.')
    setProblem(undefined)
    start.mutate({ command: words.length === 0 ? ['sh'] : words, terminal })
  }
  return (
    <Form mutation={{ ...start, mutate }} submit="Run">
      <div className="grid gap-4 sm:grid-cols-[1fr_14rem]">
        <CommandField
          placeholder="npm run migrate"
          error={problem}
          hint="Runs beside the app, with the files, variables, limits and user of the serving release. No shell reads it: for one, run sh -c '…'."
        />
        <SelectField label="Kind" name="kind" hint="A terminal without a command opens sh.">
          <option value="command">Command</option>
          <option value="terminal">Terminal</option>
        </SelectField>
      </div>
    </Form>
  )
}

/** Leaving the page ends its command, so the page asks first. */
function AskBeforeLeaving({ isUnderWay }: { readonly isUnderWay: boolean }) {
  const blocker = useBlocker({
    shouldBlockFn: () => isUnderWay,
    enableBeforeUnload: () => isUnderWay,
    withResolver: true,
  })
  if (blocker.status !== 'blocked') return null
  return (
    <ConfirmDialog
      open
      onClose={blocker.reset}
      title="End the command?"
      action="End it and leave"
      mutation={{ mutate: blocker.proceed, isPending: false, error: null }}
    >
      <p>The command ends when you leave this page.</p>
    </ConfirmDialog>
  )
}
