import { X } from 'lucide-react'
import { Dialog as Radix } from 'radix-ui'
import { type ReactNode, useRef, useState } from 'react'
import { Button } from '../controls/button.tsx'
import { focusOrHeading } from '../focus.ts'

interface DialogProps {
  readonly open: boolean
  /** Called on Escape, a click outside and the close button. Without it the user cannot close the dialog. */
  readonly onClose?: () => void
  readonly title: string
  readonly description?: ReactNode
  readonly children: ReactNode
}

/**
 * A modal dialog. On a phone it is a sheet at the bottom of the screen. It asks before it discards typed text.
 */
export function Dialog({ open, onClose, title, description, children }: DialogProps) {
  const opener = useOpener(open)
  return (
    <Radix.Root open={open}>
      <Radix.Portal>
        <Radix.Overlay className="fixed inset-0 z-40 bg-black/50" />
        {open && (
          <Content title={title} description={description} onClose={onClose} opener={opener}>
            {children}
          </Content>
        )}
      </Radix.Portal>
    </Radix.Root>
  )
}

interface ContentProps extends Pick<DialogProps, 'title' | 'description' | 'children'> {
  readonly onClose: (() => void) | undefined
  readonly opener: HTMLElement | null
}

function Content({ title, description, onClose, opener, children }: ContentProps) {
  const typed = useRef(false)
  const [asking, setAsking] = useState(false)
  const leave = (event?: Event) => {
    event?.preventDefault()
    if (typed.current && onClose !== undefined) setAsking(true)
    else onClose?.()
  }
  return (
    <Radix.Content
      onOpenAutoFocus={focusFirstField}
      onCloseAutoFocus={(event) => {
        event.preventDefault()
        focusOrHeading(opener)
      }}
      onEscapeKeyDown={leave}
      onPointerDownOutside={leave}
      onInteractOutside={(event) => event.preventDefault()}
      onInput={() => {
        typed.current = true
      }}
      {...(description === undefined && { 'aria-describedby': undefined })}
      className="fixed inset-x-0 bottom-0 z-50 max-h-[90dvh] overflow-y-auto rounded-t-xl border border-line bg-raised p-5 shadow-2xl sm:inset-auto sm:top-1/2 sm:left-1/2 sm:w-[34rem] sm:max-w-[calc(100vw-2rem)] sm:-translate-x-1/2 sm:-translate-y-1/2 sm:rounded-xl"
    >
      <div className="mb-4 flex items-start gap-4">
        <div className="min-w-0 flex-1">
          <Radix.Title className="wrap-anywhere font-semibold text-lg">{title}</Radix.Title>
          {description !== undefined && (
            <Radix.Description className="mt-0.5 text-muted">{description}</Radix.Description>
          )}
        </div>
        {onClose !== undefined && (
          <Button variant="quiet" size="icon" aria-label="Close" onClick={() => leave()}>
            <X size={16} />
          </Button>
        )}
      </div>
      {asking && <Discard onDiscard={onClose} onKeep={() => setAsking(false)} />}
      {children}
    </Radix.Content>
  )
}

interface DiscardProps {
  readonly onDiscard: (() => void) | undefined
  readonly onKeep: () => void
}

/** Asks whether to discard typed text. */
function Discard({ onDiscard, onKeep }: DiscardProps) {
  return (
    <div
      role="alert"
      className="sticky top-0 z-10 mb-4 flex flex-wrap items-center gap-2 rounded-md border border-warn/40 bg-warn-soft p-3"
    >
      <p className="flex-1">Discard what you have typed?</p>
      <Button size="small" variant="danger" onClick={onDiscard}>
        Discard
      </Button>
      <Button size="small" onClick={onKeep}>
        Keep it
      </Button>
    </div>
  )
}

/** Returns the element that had the focus when the dialog was opened; for an item of a menu, the button of the menu. */
function useOpener(open: boolean): HTMLElement | null {
  const opener = useRef<HTMLElement | null>(null)
  const wasOpen = useRef(false)
  // Read during rendering, because the dialog already has the focus when effects run.
  if (open && !wasOpen.current) {
    const focused = document.activeElement
    const menu = focused?.closest('[role=menu]')?.getAttribute('aria-labelledby')
    opener.current = menu ? document.getElementById(menu) : focused instanceof HTMLElement ? focused : null
  }
  wasOpen.current = open
  return opener.current
}

/** Moves the initial focus from the close button, where Radix puts it, to the first field. */
function focusFirstField(event: Event): void {
  const { currentTarget } = event
  const field =
    currentTarget instanceof Element ? currentTarget.querySelector('input:not([readonly]), select, textarea') : null
  if (!(field instanceof HTMLElement)) return
  event.preventDefault()
  field.focus()
}
