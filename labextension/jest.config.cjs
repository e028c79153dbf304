// Jupyter's packages are ES modules. Jest understands them only after ts-jest has translated them.
const modules = [
  '@jupyterlab',
  '@jupyter',
  '@lumino',
  '@microsoft',
  '@rjsf',
  'lib0',
  'y-protocols',
  'y-websocket',
  'yjs',
  'nanoid',
  'vscode-ws-jsonrpc',
  'exenv-es6',
  'lodash-es'
];

module.exports = {
  testEnvironment: 'jsdom',
  // Ends a test that hangs. On a busy machine and with low priority, 5 s may be too short for a
  // test that does not.
  testTimeout: 60_000,
  setupFiles: ['<rootDir>/src/__tests__/browser.cjs'],
  testMatch: ['<rootDir>/src/**/__tests__/*.test.ts', '<rootDir>/src/**/__tests__/*.test.tsx'],
  transform: {
    '\\.(ts|tsx|js|mjs)$': [
      'ts-jest',
      {
        isolatedModules: true,
        tsconfig: {
          allowJs: true,
          esModuleInterop: true,
          jsx: 'react-jsx',
          module: 'commonjs',
          target: 'ES2022'
        }
      }
    ]
  },
  transformIgnorePatterns: [`/node_modules/(?!(${modules.join('|')})/)`],
  moduleNameMapper: { '\\.(css|svg)$': '<rootDir>/src/__tests__/empty.cjs' }
};
