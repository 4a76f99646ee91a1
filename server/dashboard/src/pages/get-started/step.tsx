import { CheckCircle2, Circle } from 'lucide-react'
import type { ReactNode } from 'react'

interface StepProps {
  readonly done: boolean
  readonly title: string
  readonly children: ReactNode
}

export function Step({ done, title, children }: StepProps) {
  return (
    <li className="flex gap-3 rounded-lg border border-line bg-panel p-4">
      <span className={`mt-0.5 ${done ? 'text-good' : 'text-muted'}`}>
        {done ? <CheckCircle2 size={18} aria-hidden="true" /> : <Circle size={18} aria-hidden="true" />}
      </span>
      <div className="min-w-0 flex-1">
        <h2 className="mb-2 font-semibold">
          {title}
          {done && <span className="sr-only"> (done)</span>}
        </h2>
        {children}
      </div>
    </li>
  )
}
