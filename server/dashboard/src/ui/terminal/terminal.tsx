import { FitAddon } from '@xterm/addon-fit'
import { Terminal as Xterm } from '@xterm/xterm'
import '@xterm/xterm/css/xterm.css'
import { useEffect, useRef } from 'react'
import { allowColours, withNonce } from './page-policy.ts'

/** The screen and the keyboard of a terminal. */
export interface Screen {
  /** Shows a program's output; `shown` is called when it is on the screen. */
  write(bytes: Uint8Array, shown: () => void): void
  /** Calls back with each key, and with each new size: the current one first. */
  onInput(callback: (text: string) => void): void
  onSize(callback: (columns: number, rows: number) => void): void
  focus(): void
}

interface TerminalProps {
  readonly label: string
  /** False for output only: lines end with a line feed, and keys have no effect. */
  readonly interactive: boolean
  /** Called when the terminal is shown. */
  readonly onOpen: (screen: Screen) => void
  /** Called by Shift+Escape, which leaves the terminal: all other keys belong to the program. */
  readonly onLeave: () => void
}

/** A terminal. It is dark in both themes, as programs expect. */
export function Terminal({ label, interactive, onOpen, onLeave }: TerminalProps) {
  const box = useRef<HTMLDivElement>(null)
  const callbacks = useRef({ onOpen, onLeave })
  callbacks.current = { onOpen, onLeave }
  useEffect(() => {
    if (box.current === null) return
    const terminal = openTerminal(box.current, { label, interactive })
    terminal.xterm.attachCustomKeyEventHandler((event) => {
      // Without input, keys are the browser's, such as Tab.
      if (!interactive) return event.shiftKey && event.key.startsWith('Page')
      if (event.key !== 'Escape' || !event.shiftKey) return true
      if (event.type === 'keydown') callbacks.current.onLeave()
      return false
    })
    callbacks.current.onOpen(screenOf(terminal.xterm))
    return terminal.close
  }, [label, interactive])
  return (
    <section aria-label={label} className="rounded-md bg-[#0e1316] p-2">
      <div ref={box} className="h-[min(60dvh,30rem)] overflow-hidden" />
    </section>
  )
}

allowColours()

const theme = { background: '#0e1316', foreground: '#e8eef1', cursor: '#4fc3cf', selectionBackground: '#2c4a52' }

function openTerminal(box: HTMLElement, { label, interactive }: Pick<TerminalProps, 'label' | 'interactive'>) {
  const xterm = new Xterm({
    convertEol: !interactive,
    disableStdin: !interactive,
    cursorInactiveStyle: interactive ? 'outline' : 'none',
    fontFamily: 'ui-monospace, "Cascadia Mono", Menlo, Consolas, monospace',
    fontSize: 13,
    minimumContrastRatio: 4.5,
    screenReaderMode: true,
    scrollback: 5_000,
    theme,
  })
  const fit = new FitAddon()
  xterm.loadAddon(fit)
  withNonce(() => xterm.open(box))
  xterm.textarea?.setAttribute('aria-label', interactive ? `${label}. Press Shift and Escape to leave it.` : label)
  fit.fit()
  const observer = new ResizeObserver(() => fit.fit())
  observer.observe(box)
  return {
    xterm,
    close: () => {
      observer.disconnect()
      xterm.dispose()
    },
  }
}

const screenOf = (xterm: Xterm): Screen => ({
  write: (bytes, shown) => xterm.write(bytes, shown),
  onInput: (callback) => void xterm.onData(callback),
  onSize(callback) {
    callback(xterm.cols, xterm.rows)
    xterm.onResize(({ cols, rows }) => callback(cols, rows))
  },
  focus: () => xterm.focus(),
})
