import { ApiError } from '@fairlead/server/client'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { dashboardApi, isClientError } from '../../data/client.ts'
import { keepSession, knownDevice } from '../../data/session.ts'
import { TextField } from '../../ui/forms/field.tsx'
import { Form } from '../../ui/forms/form.tsx'
import { secretOf, textOf } from '../../ui/forms/values.ts'
import { QueryView } from '../../ui/page/query-view.tsx'
import { SignInFrame } from './sign-in-frame.tsx'

/** Creates a user by a one-time link. The token is in the fragment of the URL, which browsers do not send. */
export function Setup() {
  const [token] = useState(() => location.hash.slice(1))
  const navigate = useNavigate()
  const queryClient = useQueryClient()
  const link = useQuery({
    queryKey: ['setup', token],
    queryFn: ({ signal }) => dashboardApi.setup.check({ body: { token }, signal }),
    staleTime: Number.POSITIVE_INFINITY,
    // The page shows the error of too many wrong links, and does not wait for the end of the limit.
    retry: (failures, error) => failures < 2 && !isClientError(error),
  })
  const complete = useMutation({
    mutationFn: (values: FormData) =>
      dashboardApi.setup.complete({
        body: {
          token,
          email: textOf(values, 'email'),
          password: secretOf(values, 'password'),
          device: knownDevice(),
        },
      }),
    onSuccess: (begun) => {
      keepSession(begun)
      // Drops data of a user who was signed in before. The used link stays cached, or it would be checked again.
      queryClient.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== 'setup' })
      void navigate({ to: '/get-started', replace: true })
    },
  })
  if (link.error instanceof ApiError && link.error.code === 'not_found') return <InvalidLink />
  return (
    <SignInFrame title="Welcome" lead="Choose how you will sign in.">
      <QueryView query={link} label="the link">
        {({ account }) => (
          <Form mutation={complete} submit="Create user">
            <p>
              You will be a user of the account <strong>{account.name}</strong>.
            </p>
            <TextField label="E-mail" name="email" type="email" autoComplete="username" />
            <TextField
              label="Password"
              name="password"
              type="password"
              autoComplete="new-password"
              hint="At least 12 characters."
            />
          </Form>
        )}
      </QueryView>
    </SignInFrame>
  )
}

function InvalidLink() {
  return (
    <SignInFrame title="Link not valid" lead="This link has been used or has expired.">
      <p className="mb-2">
        On the server, <code>npx fairlead users setup-link</code> creates a new one.
      </p>
      <p>
        If you already have a user, you can{' '}
        <Link to="/sign-in" className="text-accent underline">
          sign in
        </Link>
        .
      </p>
    </SignInFrame>
  )
}
