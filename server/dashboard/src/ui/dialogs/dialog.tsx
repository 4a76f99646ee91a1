import { X } from 'lucide-react'
import { Dialog as Radix } from 'radix-ui'
import type { ReactNode } from 'react'
import { Button } from '../controls/button.tsx'

interface DialogProps {
  readonly open: boolean
  /** Without it neither Escape nor a click beside it closes the window. */
  readonly onOpenChange?: (open: boolean) => void
  readonly title: string
  readonly description?: ReactNode
  readonly children: ReactNode
}

/** A modal window: a sheet from below on a phone. Escape and a click beside it close it. */
export function Dialog({ open, onOpenChange, title, description, children }: DialogProps) {
  return (
    <Radix.Root open={open} {...(onOpenChange && { onOpenChange })}>
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
            {onOpenChange !== undefined && (
              <Radix.Close asChild>
                <Button look="quiet" size="icon" aria-label="Close">
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

/** Whoever opens a form wants to type, not to close it. */
function focusFirstField(event: Event): void {
  const { currentTarget } = event
  const field =
    currentTarget instanceof Element ? currentTarget.querySelector('input:not([readonly]), select, textarea') : null
  if (!(field instanceof HTMLElement)) return
  event.preventDefault()
  field.focus()
}

/** The row of buttons at the foot of a form or dialog. */
export function Actions({ children }: { readonly children: ReactNode }) {
  return <div className="mt-5 flex flex-wrap justify-end gap-2">{children}</div>
}
