import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { LogOut } from 'lucide-react'
import { door } from '../data/client.ts'
import { sessionQuery } from '../data/queries.ts'
import { Button } from '../ui/controls/button.tsx'

/** Who is signed in, and the way out. */
export function SignedIn() {
  const session = useQuery(sessionQuery)
  const queries = useQueryClient()
  const navigate = useNavigate()
  const leave = useMutation({
    mutationFn: () => door.session.delete(),
    onSuccess: async () => {
      await navigate({ to: '/sign-in' })
      queries.clear()
    },
  })
  if (session.data === undefined) return null
  const { user, account } = session.data
  return (
    <div className="flex items-center gap-1">
      <div className="min-w-0 flex-1 text-[13px]">
        <p className="truncate" title={user.email}>
          {user.email}
        </p>
        <p className="truncate text-muted">{account.name}</p>
      </div>
      <Button look="quiet" size="icon" aria-label="Sign out" busy={leave.isPending} onClick={() => leave.mutate()}>
        <LogOut size={15} />
      </Button>
    </div>
  )
}
