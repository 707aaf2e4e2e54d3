// Annotate: sentences of a project, one at a time, with trees that the parser proposes and people mend.

import { Desk } from "/static/annotate-desk.js";
import { newProject } from "/static/annotate-new.js";
import { get } from "/static/api.js";
import { failure, h, put } from "/static/dom.js";

const NONE = {
  message: "This server has no project.",
  hint: "Start it with one: sapwood serve --project FOLDER, where FOLDER is a new one or that of a project.",
};

export function mount(root, { state, set, models }) {
  let desk = null;
  let isOpen = true;
  const open = (project) => {
    desk = new Desk(root, { state, set, project });
  };
  const begin = async () => {
    try {
      const project = await get("project");
      if (!isOpen) return;
      if (project.exists) open(project);
      else if (project.folder_name === null) put(root, h("h1", {}, "Annotate"), failure(NONE));
      else newProject(root, { models, folder: project.folder_name, onmade: open });
    } catch (error) {
      if (isOpen) put(root, h("h1", {}, "Annotate"), failure(error));
    }
  };
  begin();
  return () => {
    isOpen = false;
    desk?.leave();
  };
}
