// JupyterLab's code editor as a React component.
import { CodeEditor, type IEditorServices } from '@jupyterlab/codeeditor';
import { useEffect, useLayoutEffect, useRef, type JSX } from 'react';

interface Props {
  text: string;
  language: 'python' | 'shell' | 'text';
  /** Text for screen readers. */
  label: string;
  editors: IEditorServices;
  /** undefined if the text is read-only. */
  change?: (text: string) => void;
}

export function Editor({ text, language, label, editors, change }: Props): JSX.Element {
  const host = useRef<HTMLDivElement>(null);
  const model = useRef<CodeEditor.Model | null>(null);
  const changed = useRef(change);
  changed.current = change;
  const readOnly = change === undefined;
  useLayoutEffect(() => {
    if (host.current === null) {
      return undefined;
    }
    const made = new CodeEditor.Model();
    made.sharedModel.changed.connect(({ source }) => changed.current?.(source));
    const editor = editors.factoryService.newInlineEditor({
      host: host.current,
      model: made,
      config: { readOnly, lineWrap: true }
    });
    const inside = host.current.querySelector('[contenteditable], [role="textbox"]');
    inside?.setAttribute('aria-label', label);
    inside?.setAttribute('aria-readonly', String(readOnly));
    model.current = made;
    return () => {
      model.current = null;
      editor.dispose();
      made.dispose();
    };
  }, [label, editors, readOnly]);
  useEffect(() => {
    if (model.current !== null) {
      model.current.mimeType =
        language === 'text'
          ? 'text/plain'
          : editors.mimeTypeService.getMimeTypeByLanguage({ name: language });
    }
  }, [language, editors]);
  useLayoutEffect(() => {
    const shared = model.current?.sharedModel;
    if (shared !== undefined && shared.getSource() !== text) {
      shared.setSource(text);
    }
  }, [text, label, editors, readOnly]);
  return <div className="jp-slurm-Editor jp-Editor" ref={host} />;
}
