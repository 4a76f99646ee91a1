import { Link } from '@tanstack/react-router'
import { receiverSnippet } from '../../data/snippets.ts'
import { CodeBlock } from '../../ui/controls/code-block.tsx'
import { Step } from './step.tsx'

export function WebhookStep({ done }: { readonly done: boolean }) {
  return (
    <Step done={done} title="Optional: a webhook">
      <p className="mb-2 text-muted">
        Create a{' '}
        <Link to="/webhooks" className="text-accent underline">
          webhook endpoint
        </Link>
        , and an app of yours is notified of every deployment.
      </p>
      <CodeBlock label="Code that receives webhooks" code={receiverSnippet} />
    </Step>
  )
}
