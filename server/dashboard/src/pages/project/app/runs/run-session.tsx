import type { ResponseBody } from '@fairlead/server/client'
import type { RunEnd } from '@fairlead/server/dashboard-client'
import { lazy, Suspense, useEffect, useRef, useState } from 'react'
import { loadModule } from '../../../../data/load-module.ts'
import { textOfWords } from '../../../../data/run/command-words.ts'
import { connectRun, type RunConnection } from '../../../../data/run/connect-run.ts'
import { textOfEnd } from '../../../../data/run/runs.ts'
import { Button } from '../../../../ui/controls/button.tsx'
import { Status } from '../../../../ui/display/status.tsx'
import { Panel } from '../../../../ui/page/page.tsx'
import { Loading } from '../../../../ui/page/states.tsx'
import type { Screen } from '../../../../ui/terminal/terminal.tsx'

/** A run with the ticket for the page's connection. */
export type ConnectableRun = Pick<ResponseBody<'runs.create'>, 'id' | 'command' | 'terminal' | 'connect'>

const Terminal = lazy(async () => {
  const { Terminal } = await loadModule(() => import('../../../../ui/terminal/terminal.tsx'))
  return { default: Terminal }
})

interface RunSessionProps {
  readonly run: ConnectableRun
  readonly onEnd: () => void
}

/** A command that runs as long as it is shown, with its output and its result. */
export function RunSession({ run, onEnd }: RunSessionProps) {
  const [end, setEnd] = useState<RunEnd>()
  const connection = useRef<RunConnection>(undefined)
  const isAsked = useRef(false)
  const endButton = useRef<HTMLButtonElement>(null)
  useEffect(() => () => connection.current?.close(), [])
  const connect = (screen: Screen) => {
    const opened = connectRun({
      ...run.connect,
      interactive: run.terminal,
      onOutput: screen.write,
      onEnd: (given) => {
        setEnd(isAsked.current ? { ...given, problem: 'You have ended it.' } : given)
        onEnd()
      },
    })
    connection.current = opened
    screen.onInput(opened.write)
    if (!run.terminal) return
    screen.onSize(opened.resize)
    screen.focus()
  }
  const stop = () => {
    isAsked.current = true
    connection.current?.close()
  }
  return (
    <Panel
      title={textOfWords(run.command)}
      actions={
        end === undefined && (
          <Button ref={endButton} size="small" variant="danger" onClick={stop}>
            End the command
          </Button>
        )
      }
    >
      <div className="grid grid-cols-[minmax(0,1fr)] gap-3">
        <Suspense fallback={<Loading label="the terminal" />}>
          <Terminal
            label={run.terminal ? 'Terminal' : 'Output'}
            interactive={run.terminal}
            onOpen={connect}
            onLeave={() => endButton.current?.focus()}
          />
        </Suspense>
        {run.terminal && end === undefined && <Keys onKey={(text) => connection.current?.write(text)} />}
        <output className="flex flex-wrap items-center gap-2">
          {end === undefined ? <Status value="running" /> : <End end={end} />}
          {end === undefined && run.terminal && (
            <span className="text-[13px] text-muted">Shift and Escape leave the terminal. It ends with this page.</span>
          )}
        </output>
      </div>
    </Panel>
  )
}

function End({ end }: { readonly end: RunEnd }) {
  const text = textOfEnd({ exit_code: end.code, signal: end.signal })
  return (
    <>
      <Status value={end.code === 0 && end.problem === null ? 'succeeded' : 'failed'} />
      <span>{[text, end.problem].filter((part) => part !== '' && part !== null).join('. ')}</span>
    </>
  )
}

const keys = [
  ['Ctrl+C', '\x03'],
  ['Ctrl+D', '\x04'],
  ['Tab', '\t'],
  ['Esc', '\x1b'],
  ['↑', '\x1b[A'],
  ['↓', '\x1b[B'],
] as const

/** The keys that keyboards of phones lack. */
function Keys({ onKey }: { readonly onKey: (text: string) => void }) {
  return (
    <fieldset className="flex flex-wrap gap-2 md:hidden">
      <legend className="sr-only">Keys</legend>
      {keys.map(([label, text]) => (
        <Button key={label} size="small" onClick={() => onKey(text)}>
          {label}
        </Button>
      ))}
    </fieldset>
  )
}
