import { greet } from '@repo/greeting'

const app = document.querySelector('#app')
if (app) app.textContent = greet('Turborepo')
