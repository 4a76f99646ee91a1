import { Button } from '../controls/button.tsx'

interface LoadMoreProps {
  readonly label: string
  readonly busy?: boolean
  readonly onClick: () => void
}

/** The button below a list that loads further entries. */
export function LoadMore({ label, busy = false, onClick }: LoadMoreProps) {
  return (
    <div className="border-line border-t p-3 text-center">
      <Button busy={busy} onClick={onClick}>
        {label}
      </Button>
    </div>
  )
}
