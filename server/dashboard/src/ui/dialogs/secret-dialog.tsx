import type { ReactNode } from 'react'
import { Button } from '../controls/button.tsx'
import { ButtonRow } from '../controls/button-row.tsx'
import { CodeBlock } from '../controls/code-block.tsx'
import { Dialog } from './dialog.tsx'

interface SecretDialogProps {
  readonly title: string
  /** `undefined` closes the dialog. */
  readonly secret: string | undefined
  readonly onDone: () => void
  readonly children?: ReactNode
}

/** Shows a secret once. Only its button closes the dialog, so that a stray click does not lose the secret. */
export function SecretDialog({ title, secret, onDone, children }: SecretDialogProps) {
  return (
    <Dialog open={secret !== undefined} title={title} description="Copy it now: it is not shown again.">
      <div className="grid grid-cols-[minmax(0,1fr)] gap-3">
        <CodeBlock wrap code={secret ?? ''} label={title} />
        {children}
      </div>
      <ButtonRow>
        <Button variant="primary" onClick={onDone}>
          I have stored it
        </Button>
      </ButtonRow>
    </Dialog>
  )
}
