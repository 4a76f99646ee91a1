import type { ResponseBody } from '@fairlead/server/client'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api } from '../../../data/client.ts'
import { Button } from '../../../ui/controls/button.tsx'
import { ConfirmDialog } from '../../../ui/dialogs/confirm-dialog.tsx'
import { ErrorAlert } from '../../../ui/page/states.tsx'
import { ConnectionDialog } from './connection-dialog.tsx'

interface DatabaseProps {
  readonly database: ResponseBody<'databases.get'>
}

export function DatabaseActions({ database }: DatabaseProps) {
  const deleting = database.status === 'deleting'
  return (
    <>
      {deleting && <RestoreDatabase database={database} />}
      {/* Mounted in every state, so that a new connection string stays on the screen when the state changes. */}
      <RotatePassword database={database} />
      {!deleting && <DeleteDatabase database={database} />}
    </>
  )
}

/** Returns a function that reloads everything about the database's project. */
function useReload({ database: { project_id } }: DatabaseProps): () => Promise<void> {
  const queryClient = useQueryClient()
  return () => queryClient.invalidateQueries({ queryKey: ['projects', project_id] })
}

function RestoreDatabase({ database }: DatabaseProps) {
  const { id, project_id } = database
  const reload = useReload({ database })
  const restore = useMutation({
    mutationFn: () => api.databases.restore({ params: { project_id, id } }),
    onSettled: reload,
  })
  return (
    <>
      <Button variant="primary" busy={restore.isPending} onClick={() => restore.mutate()}>
        Restore
      </Button>
      {restore.error !== null && <ErrorAlert error={restore.error} />}
    </>
  )
}

function RotatePassword({ database }: DatabaseProps) {
  const { id, project_id, status } = database
  const reload = useReload({ database })
  const [confirming, setConfirming] = useState(false)
  const [connection, setConnection] = useState<string>()
  const rotate = useMutation({
    mutationFn: () => api.databases.rotatePassword({ params: { project_id, id } }),
    onSuccess: async ({ connection_string }) => {
      setConnection(connection_string)
      setConfirming(false)
      await reload()
    },
  })
  return (
    <>
      {status === 'available' && <Button onClick={() => setConfirming(true)}>Rotate password</Button>}
      <ConfirmDialog
        open={confirming}
        onClose={() => setConfirming(false)}
        title="Rotate the password?"
        action="Rotate password"
        mutation={rotate}
      >
        <p>
          You get a new connection string. The old password stops working immediately, and its connections end. While
          linked apps run, it works until all of their instances have been replaced, for 15 minutes at most.
        </p>
      </ConfirmDialog>
      <ConnectionDialog
        title="New connection string"
        connectionString={connection}
        onDone={() => setConnection(undefined)}
      />
    </>
  )
}

function DeleteDatabase({ database }: DatabaseProps) {
  const { id, project_id, name } = database
  const reload = useReload({ database })
  const [confirming, setConfirming] = useState(false)
  const remove = useMutation({
    mutationFn: () => api.databases.delete({ params: { project_id, id } }),
    onSuccess: async () => {
      setConfirming(false)
      await reload()
    },
  })
  return (
    <>
      <Button variant="danger" onClick={() => setConfirming(true)}>
        Delete
      </Button>
      <ConfirmDialog
        open={confirming}
        onClose={() => setConfirming(false)}
        title={`Delete ${name}?`}
        action="Delete database"
        confirmationText={name}
        mutation={remove}
      >
        <p>Clients can no longer connect. Its data is kept for a while, during which it can be restored.</p>
      </ConfirmDialog>
    </>
  )
}
