import type { ReactNode } from 'react'
import { Button } from '../controls/button.tsx'
import { CodeBlock } from '../controls/copy-button.tsx'
import { Actions, Dialog } from './dialog.tsx'

interface SecretProps {
  readonly title: string
  /** `undefined` while there is nothing to show. */
  readonly secret: string | undefined
  readonly onDone: () => void
  readonly children?: ReactNode
}

/** A secret that is shown this one time. It goes away only by a click on the button, not by a click beside it. */
export function SecretDialog({ title, secret, onDone, children }: SecretProps) {
  return (
    <Dialog open={secret !== undefined} title={title} description="Copy it now: it is not shown again.">
      <div className="grid grid-cols-[minmax(0,1fr)] gap-3">
        <CodeBlock code={secret ?? ''} label={title} />
        {children}
      </div>
      <Actions>
        <Button look="primary" onClick={onDone}>
          I have stored it
        </Button>
      </Actions>
    </Dialog>
  )
}
