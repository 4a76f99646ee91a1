import { X } from 'lucide-react'
import { Dialog as Radix } from 'radix-ui'
import type { ReactNode } from 'react'
import { Button } from '../controls/button.tsx'

interface DialogProps {
  readonly open: boolean
  /** Called on Escape, a click outside and the close button. Without it none of these closes the dialog. */
  readonly onClose?: () => void
  readonly title: string
  readonly description?: ReactNode
  readonly children: ReactNode
}

/** A modal dialog. On a phone it is a sheet at the bottom of the screen. */
export function Dialog({ open, onClose, title, description, children }: DialogProps) {
  return (
    <Radix.Root open={open} onOpenChange={(next) => !next && onClose?.()}>
      <Radix.Portal>
        <Radix.Overlay className="fixed inset-0 z-40 bg-black/50" />
        <Radix.Content
          onOpenAutoFocus={focusFirstField}
          {...(description === undefined && { 'aria-describedby': undefined })}
          className="fixed inset-x-0 bottom-0 z-50 max-h-[90dvh] overflow-y-auto rounded-t-xl border border-line bg-raised p-5 shadow-2xl sm:inset-auto sm:top-1/2 sm:left-1/2 sm:w-[34rem] sm:max-w-[calc(100vw-2rem)] sm:-translate-x-1/2 sm:-translate-y-1/2 sm:rounded-xl"
        >
          <div className="mb-4 flex items-start gap-4">
            <div className="min-w-0 flex-1">
              <Radix.Title className="font-semibold text-lg">{title}</Radix.Title>
              {description !== undefined && (
                <Radix.Description className="mt-0.5 text-muted">{description}</Radix.Description>
              )}
            </div>
            {onClose !== undefined && (
              <Radix.Close asChild>
                <Button variant="quiet" size="icon" aria-label="Close">
                  <X size={16} />
                </Button>
              </Radix.Close>
            )}
          </div>
          {children}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  )
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
