import './base.css';
import './answer.css';
