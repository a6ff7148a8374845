//! The application API: AAP 2.0 as a machine. Start reading at [`seam`].

pub mod seam;
