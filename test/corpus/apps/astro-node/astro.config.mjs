// @ts-check
import node from '@astrojs/node';
import { defineConfig } from 'astro/config';

// https://docs.astro.build/en/guides/integrations-guide/node/
export default defineConfig({
	output: 'server',
	adapter: node({ mode: 'standalone' }),
});
