import { useMutation, useQueryClient } from '@tanstack/react-query'
import { api } from '../../../data/client.ts'
import { registriesQuery } from '../../../data/queries.ts'
import { Dialog } from '../../../ui/dialogs/dialog.tsx'
import { TextField } from '../../../ui/forms/field.tsx'
import { Form } from '../../../ui/forms/form.tsx'
import { secretOf, textOf } from '../../../ui/forms/values.ts'

interface StoreRegistryProps {
  readonly projectId: string
  readonly onClose: () => void
}

/** Stores a name and a password for a registry, in place of earlier credentials. */
export function StoreRegistry({ projectId, onClose }: StoreRegistryProps) {
  const queryClient = useQueryClient()
  const store = useMutation({
    mutationFn: (values: FormData) =>
      api.registries.set({
        params: { project_id: projectId },
        body: {
          registry: textOf(values, 'registry'),
          username: textOf(values, 'username'),
          password: secretOf(values, 'password'),
        },
      }),
    onSuccess: async () => {
      await queryClient.invalidateQueries(registriesQuery(projectId))
      onClose()
    },
  })
  return (
    <Dialog
      open
      onClose={onClose}
      title="Credentials for a registry"
      description="Every app of the project may pull with them. They replace the stored credentials for the same registry."
    >
      <Form mutation={store} submit="Store credentials" onCancel={onClose}>
        <TextField
          label="Registry"
          name="registry"
          autoComplete="off"
          spellCheck={false}
          className="font-mono"
          placeholder="registry.example.com"
          hint="The host with its port, as the names of its images begin: docker.io for Docker Hub."
        />
        <TextField label="User name" name="username" autoComplete="off" spellCheck={false} />
        <TextField
          label="Password"
          name="password"
          type="password"
          autoComplete="off"
          hint="Or better a token that may only pull. It is not shown again."
        />
      </Form>
    </Dialog>
  )
}
