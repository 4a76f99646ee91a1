import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api } from '../../../../data/client.ts'
import { gitCredentialsQuery } from '../../../../data/queries.ts'
import { writeQuery } from '../../../../data/write-query.ts'
import { Dialog } from '../../../../ui/dialogs/dialog.tsx'
import { SelectField, TextField } from '../../../../ui/forms/field.tsx'
import { Form } from '../../../../ui/forms/form.tsx'
import { secretOf, textOf } from '../../../../ui/forms/values.ts'
import { type AppOfPage, paramsOf } from '../app-of-page.ts'

type Kind = 'token' | 'deploy_key'

/** Stores a token, or makes a deploy key. */
export function StoreCredentials({ app, onClose }: { readonly app: AppOfPage; readonly onClose: () => void }) {
  const [kind, setKind] = useState<Kind>('deploy_key')
  const store = useStore(app, onClose)
  return (
    <Dialog
      open
      onClose={onClose}
      title="Credentials for a private repository"
      description="They replace those that are stored, and are used by every further deployment of the repository."
    >
      <Form mutation={store} submit={kind === 'token' ? 'Store token' : 'Make key'} onCancel={onClose}>
        <SelectField
          label="Kind"
          name="kind"
          value={kind}
          onChange={({ target }) => setKind(target.value === 'token' ? 'token' : 'deploy_key')}
        >
          <option value="deploy_key">Deploy key, for ssh</option>
          <option value="token">Token, for https</option>
        </SelectField>
        {kind === 'token' && (
          <TextField
            label="Token"
            name="token"
            type="password"
            autoComplete="off"
            hint="A token that may read the repository, or user:password. It is not shown again."
          />
        )}
        <TextField
          label="Repository"
          name="git_url"
          autoComplete="off"
          spellCheck={false}
          className="font-mono"
          placeholder={kind === 'token' ? 'that of the app' : 'that of the app, by ssh'}
          hint={kind === 'token' ? 'An https address.' : 'Such as git@example.com:team/shop.git.'}
        />
      </Form>
    </Dialog>
  )
}

function useStore(app: AppOfPage, onDone: () => void) {
  const queryClient = useQueryClient()
  return useMutation({
    mutationFn: (values: FormData) => {
      const [kind, url] = [textOf(values, 'kind'), textOf(values, 'git_url')]
      return api.gitCredentials.set({
        params: paramsOf(app),
        body: {
          ...(kind === 'token'
            ? { kind: 'token' as const, token: secretOf(values, 'token') }
            : { kind: 'deploy_key' as const }),
          ...(url !== '' && { git_url: url }),
        },
      })
    },
    onSuccess: async (answer) => {
      await writeQuery(queryClient, gitCredentialsQuery(app.projectId, app.appId), answer)
      onDone()
    },
  })
}
